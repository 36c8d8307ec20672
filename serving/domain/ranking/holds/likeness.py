"""The likeness of two turns, on one scale for all encoders.

The cosines of two turns that have nothing in common are about .4 with one encoder and .85 with
another. The vectors of a memory are therefore scaled until two of them are usually as far from each
other as those of the encoder that the model was fitted with.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

USUAL = 0.35
"""The mean cosine of two turns of a memory, with the default encoder."""

PRIOR = 56
"""The number of cosines that `USUAL` counts as: as many as eight turns have to each other."""

SAMPLED = 64
"""Maximum number of sampled turns of a memory."""


def sampled(turns: int) -> slice:
    """A sample of the turns of a memory: some from all its time."""
    return slice(0, turns, turns // SAMPLED + 1)


def scale_of(vectors: NDArray[Any]) -> float:
    """The factor for the vectors of a memory, by some of them: (turns, dimension), of length 1."""
    turns = len(vectors)
    summed = float(np.square(vectors.sum(axis=0, dtype=np.float64)).sum()) - turns
    usual = (summed + PRIOR * USUAL) / (turns * (turns - 1) + PRIOR)
    return math.sqrt((1 - USUAL) / (1 - usual))


def likeness(scaled: NDArray[Any]) -> NDArray[np.float64]:
    """1 less half the squared distance of each two vectors: the cosine, were they of length 1."""
    given = scaled.astype(np.float64)
    squares = np.square(given).sum(axis=1)
    alike: NDArray[np.float64] = 1 - (squares[:, None] + squares) / 2 + given @ given.T
    return alike
