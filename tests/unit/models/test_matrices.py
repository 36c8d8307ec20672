"""The precision of quantized matrices."""

from __future__ import annotations

import pytest
import torch

from serving.models.matrices import DenseMatrix, QuantizedMatrix, kept_bytes, matrices_in
from serving.models.precision import QUANTIZED, Precision

SIDE = 64
STEPS: dict[Precision, float] = {"int8": 1 / 127, "float8": 1 / 8}
"""The distance of two codes at the largest weight of an output, relative to that weight."""

quantized = pytest.mark.parametrize("precision", sorted(QUANTIZED))


def of_unlike_outputs() -> torch.Tensor:
    """A square matrix, each output a hundred times smaller than the previous."""
    generator = torch.Generator().manual_seed(1)
    magnitudes = 100.0 ** -torch.arange(SIDE).remainder(4)
    return torch.randn(SIDE, SIDE, generator=generator) * magnitudes[:, None]


def rows() -> torch.Tensor:
    return torch.randn(5, SIDE, generator=torch.Generator().manual_seed(2)).bfloat16()


@quantized
def test_each_output_is_as_close_as_its_own_largest_weight_allows(precision: Precision) -> None:
    weights = of_unlike_outputs()
    matrix = QuantizedMatrix(weights, precision)

    kept = matrix.codes.float() * matrix.scales.float()[:, None]
    off = (kept - weights).abs().amax(dim=1)
    assert (off <= 0.51 * STEPS[precision] * weights.abs().amax(dim=1)).all()


@quantized
def test_the_product_is_that_of_the_weights(precision: Precision) -> None:
    weights = of_unlike_outputs()
    made = QuantizedMatrix(weights, precision).product(rows()).float()

    wanted = rows().float() @ weights.t()
    assert torch.nn.functional.cosine_similarity(made, wanted, dim=0).min() > 0.998


@pytest.mark.parametrize("precision", ["float32", "bfloat16", *sorted(QUANTIZED)])
def test_adding_a_product_is_adding_what_the_product_gives(precision: Precision) -> None:
    dtype = torch.float32 if precision == "float32" else torch.bfloat16
    matrix = matrices_in(precision)(of_unlike_outputs().to(dtype))
    stream = torch.ones(5, SIDE, dtype=dtype)

    made = matrix.add_product(stream, rows().to(dtype))
    torch.testing.assert_close(made, stream + matrix.product(rows().to(dtype)), atol=0.1, rtol=0.02)
    assert (stream == 1).all()


@quantized
def test_an_output_without_weights_is_zero(precision: Precision) -> None:
    weights = of_unlike_outputs()
    weights[3] = 0

    made = QuantizedMatrix(weights, precision).product(rows())
    assert made.isfinite().all()
    assert (made[:, 3] == 0).all()


@quantized
def test_a_weight_takes_half_of_what_it_does_in_bfloat16(precision: Precision) -> None:
    matrix = QuantizedMatrix(of_unlike_outputs(), precision)

    assert matrix.codes.element_size() == kept_bytes(precision) == kept_bytes("bfloat16") / 2


def test_a_matrix_that_is_not_quantized_is_not_copied() -> None:
    weights = of_unlike_outputs()
    matrix = DenseMatrix(weights)
    weights.zero_()

    assert (matrix.product(torch.ones(1, SIDE)) == 0).all()
