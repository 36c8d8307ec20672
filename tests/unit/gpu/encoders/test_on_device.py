"""Query vectors that stay on their device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from serving.adapters.encoder.windows import encode_by_length
from serving.gpu.encoders.on_device import to_host, vectors_by_length
from serving.ports.embedding import TokenIds

WIDTH, DIMENSION = 6, 4
WINDOWS: list[list[int]] = [[3], [1, 4, 1], [5, 9], [2, 6, 5, 3]]


def network(windows: Sequence[TokenIds]) -> torch.Tensor:
    """A row that depends only on the first token."""
    places = torch.arange(1.0, WIDTH + 1)
    return torch.stack([window[0] + places for window in windows])


def test_vectors_on_device_are_truncated_and_normalized() -> None:
    made = vectors_by_length(WINDOWS, network, DIMENSION, padded_tokens=4)

    wanted = encode_by_length(WINDOWS, to_host(network), DIMENSION, padded_tokens=4)
    assert all(vector is not None for vector in made)
    np.testing.assert_allclose(np.stack([np.asarray(vector) for vector in made]), wanted, rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, torch.nan, torch.inf])
def test_unusable_row_is_none_among_vectors(value: float) -> None:
    def spoilt(windows: Sequence[TokenIds]) -> torch.Tensor:
        rows = network(windows)
        rows[[window[0] == 5 for window in windows]] = value
        rows[:, DIMENSION:] = torch.nan  # is cut off
        return rows

    made = vectors_by_length(WINDOWS, spoilt, DIMENSION, padded_tokens=16)

    assert [vector is None for vector in made] == [False, False, True, False]
