"""Weight matrices in the precision of the arithmetic, or quantized to eight bits.

Eight bits halve the memory of the weights. In plain torch they do not halve the time: before each
product the codes are converted to bfloat16, which writes and reads the matrix once more. A fused
kernel would avoid that; torch's own is private and was not measured. torchao relies on
`torch.compile` for such kernels, which would recompile for each of a hundred shapes here.
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
"""The type of the arithmetic, by precision."""

CODES: Mapping[Precision, torch.dtype] = {"int8": torch.int8, "float8": torch.float8_e4m3fn}
"""The type of quantized weights, by precision."""

LARGEST_CODE: Mapping[Precision, float] = {"int8": 127.0, "float8": 448.0}


def kept_bytes(precision: Precision) -> int:
    """The bytes of one weight of a matrix."""
    return CODES.get(precision, DTYPES[precision]).itemsize


class Matrix(Protocol):
    """A matrix (out, in) of weights."""

    def product(self, rows: Tensor) -> Tensor:
        """Multiplies (tokens, in) to (tokens, out)."""
        ...

    def add_product(self, stream: Tensor, rows: Tensor) -> Tensor:
        """Adds the product of (tokens, in) to (tokens, out); returns a new tensor."""
        ...


class DenseMatrix:
    """A `Matrix` in the precision of the arithmetic.

    Args:
        weights: (out, in); kept without a copy.
    """

    def __init__(self, weights: Tensor) -> None:
        self._transposed = weights.t()

    def product(self, rows: Tensor) -> Tensor:
        return torch.mm(rows, self._transposed)

    def add_product(self, stream: Tensor, rows: Tensor) -> Tensor:
        return torch.addmm(stream, rows, self._transposed)


class QuantizedMatrix:
    """A `Matrix` of eight-bit codes, with one scale per output.

    A large weight reduces the resolution of its own output only. Scales are applied after the
    product, since all terms of an output share one. Codes are exact in bfloat16, so nothing is
    rounded before the sum.

    Args:
        weights: (out, in), finite; not kept.
        precision: One of `QUANTIZED`.
    """

    def __init__(self, weights: Tensor, precision: Precision) -> None:
        largest = LARGEST_CODE[precision]
        exact = weights.float()
        scales = exact.abs().amax(dim=1) / largest
        # Rounded before the codes are computed, so that they compensate for it.
        self.scales = scales.where(scales > 0, 1).to(DTYPES[precision])
        codes = (exact / self.scales.float()[:, None]).clamp(-largest, largest)
        dtype = CODES[precision]
        self.codes = (codes if dtype.is_floating_point else codes.round()).to(dtype)

    def product(self, rows: Tensor) -> Tensor:
        return self._unscaled(rows) * self.scales

    def add_product(self, stream: Tensor, rows: Tensor) -> Tensor:
        return torch.addcmul(stream, self._unscaled(rows), self.scales)

    def _unscaled(self, rows: Tensor) -> Tensor:
        return torch.mm(rows, self.codes.to(rows.dtype).t())


MakeMatrix = Callable[[Tensor], Matrix]
"""Makes a `Matrix` of weights (out, in)."""


def matrices_in(precision: Precision) -> MakeMatrix:
    """The kind of matrix of a network in this precision."""
    if precision not in QUANTIZED:
        return DenseMatrix
    return partial(QuantizedMatrix, precision=precision)
