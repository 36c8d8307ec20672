"""Predicts the time of a batch by its number of tokens, from the batches that ran."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import NamedTuple

REMEMBERED = 16
"""The number of batches that a prediction is based on."""

MIN_SPREAD = 2
"""The least ratio of two batch sizes from which a slope is estimated."""

GROWTH = 2
"""The largest batch that is predicted to fit, relative to the largest one remembered."""

FORGETTING = 0.98
"""The factor by which `doubt` shortens predictions."""


class _Batch(NamedTuple):
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Fit:
    """A line through the batches, and the size of the largest one."""

    batch_s: float
    token_s: float
    largest: int


class LatencyModel:
    """The fixed time of a batch, and the time per token.

    Both come from the Theil-Sen line through the last batches: its slope is the median of the
    slopes between two of them, so a few outliers (garbage collection, another process) do not
    change it as they would change a least-squares fit. If all batches are of similar size, all time
    is attributed to the tokens, which overestimates larger batches and never underestimates them.

    One thread learns; others may predict meanwhile.
    """

    def __init__(self) -> None:
        self._batches: tuple[_Batch, ...] = ()
        self._fit: _Fit | None = None
        self._trust = 1.0

    def learn(self, tokens: int, seconds: float) -> None:
        """Adds a batch."""
        self._batches = (*self._batches[1 - REMEMBERED :], _Batch(tokens, seconds))
        self._fit = _fit(self._batches)
        self._trust = 1.0

    def doubt(self) -> None:
        """Shortens predictions a little, until the next batch is learned.

        To be called when work is rejected because of a prediction: nothing is learned then, and
        a slow period would be remembered for ever.
        """
        self._trust *= FORGETTING

    def seconds(self, tokens: int) -> float | None:
        """Returns the predicted time of a batch; None before the first batch."""
        fit = self._fit
        return None if fit is None else self._trust * (fit.batch_s + fit.token_s * tokens)

    def tokens_within(self, seconds: float) -> int:
        """Returns the most tokens whose batch is predicted to take at most so long; may be 0."""
        fit = self._fit
        if fit is None or fit.batch_s > seconds:
            return 0
        left_s = seconds - fit.batch_s
        most = GROWTH * fit.largest
        return most if fit.token_s * most <= left_s else math.floor(left_s / fit.token_s)


def _fit(batches: Sequence[_Batch]) -> _Fit:
    by_size = sorted(batches)
    largest = by_size[-1].tokens
    slopes = [
        (large_s - small_s) / (large - small)
        for (small, small_s), (large, large_s) in combinations(by_size, 2)
        if large >= MIN_SPREAD * small
    ]
    if not slopes:
        return _Fit(0.0, median(batch.seconds / batch.tokens for batch in batches), largest)
    token_s = max(0.0, median(slopes))
    batch_s = median(batch.seconds - token_s * batch.tokens for batch in batches)
    return _Fit(max(0.0, batch_s), token_s, largest)
