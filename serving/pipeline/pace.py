"""How long a device takes for a batch of so many tokens, learned from the batches that ran."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import NamedTuple

REMEMBERED = 16
"""Batches that a prediction rests on."""

LEAST_SPREAD = 2
"""How many times larger one batch must be than another for the two to tell the time that any
batch takes from the time that a token takes."""

GROWTH = 2
"""How many times larger than the largest remembered a batch may be that is said to fit."""

FORGETTING = 0.98
"""What a doubt leaves of a prediction."""


class _Batch(NamedTuple):
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Fit:
    """A line through the batches, and how far they reach."""

    batch_s: float
    token_s: float
    largest: int


class Pace:
    """What a device takes for any batch, and what for each token of it.

    Both are read from the Theil-Sen line through the batches remembered: its slope is the median
    of the slopes between two of them. So a few that something else held up (a collection of
    garbage, another process) do not move it; least squares would follow them. Where all batches
    are of like size, all is put down to the tokens, which says too much of a larger batch and
    never too little.

    One thread learns, others may ask meanwhile.
    """

    def __init__(self) -> None:
        self._batches: tuple[_Batch, ...] = ()
        self._fit: _Fit | None = None
        self._trust = 1.0

    def learn(self, tokens: int, seconds: float) -> None:
        """Notes how long a batch took.

        Args:
            tokens: At least 1.
            seconds: Of the whole pass.
        """
        self._batches = (*self._batches[1 - REMEMBERED :], _Batch(tokens, seconds))
        self._fit = _fit(self._batches)
        self._trust = 1.0

    def doubt(self) -> None:
        """Makes predictions a little shorter until a batch is learned from.

        For whoever does nothing because of a prediction: nothing new is learned then, and a slow
        spell would be remembered for ever.
        """
        self._trust *= FORGETTING

    def seconds(self, tokens: int) -> float | None:
        """The time for a batch; None if nothing is known."""
        fit = self._fit
        return None if fit is None else self._trust * (fit.batch_s + fit.token_s * tokens)

    def tokens_within(self, seconds: float) -> int:
        """The most tokens whose batch takes at most so long, as far as is known; may be 0."""
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
        if large >= LEAST_SPREAD * small
    ]
    if not slopes:
        return _Fit(0.0, median(batch.seconds / batch.tokens for batch in batches), largest)
    token_s = max(0.0, median(slopes))
    batch_s = median(batch.seconds - token_s * batch.tokens for batch in batches)
    return _Fit(max(0.0, batch_s), token_s, largest)
