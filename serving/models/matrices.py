"""Products with a matrix of weights, kept as it is computed with or in eight bits a number.

Eight bits halve the memory of the weights. In plain torch they do not halve the time: before each
product the codes are turned into bfloat16, which writes and reads the matrix once more. A kernel
that turns them on the way into the product would; torch's own one is private, and was not
measured. torchao quantizes modules and leans on `torch.compile` for such kernels, which here
would compile anew for each of a hundred shapes; what is left of it without is these few lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from serving.models.precision import QUANTIZED, Precision

DTYPES: Mapping[Precision, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int8": torch.bfloat16,
    "float8": torch.bfloat16,
}
"""What a network of each precision computes in."""

CODES: Mapping[Precision, torch.dtype] = {"int8": torch.int8, "float8": torch.float8_e4m3fn}
"""What the weights of one that is quantized are kept in."""

LARGEST_CODE: Mapping[Precision, float] = {"int8": 127.0, "float8": 448.0}


def kept_bytes(precision: Precision) -> int:
    """What each weight of a matrix takes."""
    return CODES.get(precision, DTYPES[precision]).itemsize


class Matrix(Protocol):
    """A matrix (out, in) of weights."""

    def product(self, rows: Tensor) -> Tensor:
        """Makes (tokens, out) of (tokens, in)."""
        ...

    def add_product(self, stream: Tensor, rows: Tensor) -> Tensor:
        """Adds the product of (tokens, in) to (tokens, out), into a tensor of its own."""
        ...


class DenseMatrix:
    """A `Matrix` that is kept in the numbers it is computed with.

    Args:
        weights: (out, in), which is not copied.
    """

    def __init__(self, weights: Tensor) -> None:
        self._transposed = weights.t()

    def product(self, rows: Tensor) -> Tensor:
        """Makes (tokens, out) of (tokens, in)."""
        return torch.mm(rows, self._transposed)

    def add_product(self, stream: Tensor, rows: Tensor) -> Tensor:
        """Adds the product to a stream."""
        return torch.addmm(stream, rows, self._transposed)


class QuantizedMatrix:
    """A `Matrix` of codes of eight bits, with a scale for each output.

    One large weight makes the codes of its own output coarse, and those of no other. The scales
    come after the product, since they are the same for all of its terms: codes are whole in
    bfloat16, so nothing is rounded before the sum.

    Args:
        weights: (out, in), finite; not kept.
        precision: One of `QUANTIZED`.
    """

    def __init__(self, weights: Tensor, precision: Precision) -> None:
        largest = LARGEST_CODE[precision]
        exact = weights.float()
        scales = exact.abs().amax(dim=1) / largest
        # Rounded before the codes are made, so that these make up for it.
        self.scales = scales.where(scales > 0, 1).to(DTYPES[precision])
        codes = (exact / self.scales.float()[:, None]).clamp(-largest, largest)
        dtype = CODES[precision]
        self.codes = (codes if dtype.is_floating_point else codes.round()).to(dtype)

    def product(self, rows: Tensor) -> Tensor:
        """Makes (tokens, out) of (tokens, in)."""
        return self._unscaled(rows) * self.scales

    def add_product(self, stream: Tensor, rows: Tensor) -> Tensor:
        """Adds the product to a stream."""
        return torch.addcmul(stream, self._unscaled(rows), self.scales)

    def _unscaled(self, rows: Tensor) -> Tensor:
        return torch.mm(rows, self.codes.to(rows.dtype).t())


MakeMatrix = Callable[[Tensor], Matrix]
"""Keeps weights (out, in) in some way."""


def matrices_in(precision: Precision) -> MakeMatrix:
    """How a network of a precision keeps its matrices."""
    if precision not in QUANTIZED:
        return DenseMatrix
    return partial(QuantizedMatrix, precision=precision)
