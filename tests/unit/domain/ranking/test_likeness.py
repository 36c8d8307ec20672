from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from serving.domain.ranking.holds.likeness import USUAL, likeness, scale_of


def turns(count: int, usual: float) -> NDArray[np.float64]:
    """Vectors whose cosines are about `usual`; the last two are nearer to each other."""
    own = np.random.default_rng(0).standard_normal((count, 200))
    own[-1] = own[-2] + own[0]
    own *= np.sqrt(1 - usual) / np.linalg.norm(own, axis=1, keepdims=True)
    vectors: NDArray[np.float64] = np.c_[own, np.full(count, np.sqrt(usual))]
    return vectors


@pytest.mark.parametrize("usual", [0.0, 0.6, 0.85])
def test_likeness_of_turns_depends_on_no_encoder(usual: float) -> None:
    ours, theirs = turns(60, USUAL), turns(60, usual)

    found = likeness(theirs * scale_of(theirs))

    assert found == pytest.approx(likeness(ours * scale_of(ours)), abs=0.05)


def test_likeness_of_unit_vectors_is_their_cosine() -> None:
    vectors = turns(10, 0.5)

    assert likeness(vectors) == pytest.approx(vectors @ vectors.T)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_vectors_of_few_turns_keep_their_length(count: int) -> None:
    assert scale_of(np.ones((count, 1))) == pytest.approx(1, abs=0.05)


def test_vectors_of_equal_turns_have_a_scale() -> None:
    assert np.isfinite(scale_of(np.ones((64, 1))))
