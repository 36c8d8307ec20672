"""Confidence intervals of means over questions and of differences between two configurations.

Questions about one conversation share its people and topics, so they are not independent. Where a
set has several conversations, whole conversations are drawn, which widens the intervals.
Differences are paired: both configurations answer the same questions.

Source:
    Efron, Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 8 and 13; Field, Welsh,
    "Bootstrapping clustered data", JRSS B 2007, for the draw of whole clusters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

BOOTSTRAP_SAMPLES = 2000
CONFIDENCE = 0.95
MIN_QUESTIONS = 6
"""Of fewer there is no interval: even if each were a loss, a sign test would not be significant at
this confidence, while resampling so few values makes intervals that are far too narrow."""

_BATCH = 100
"""Samples held in memory at once."""

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with the interval that covers the true one in 95 of 100 samples of questions.

    `low` and `high` are not a number where there are too few questions to say anything; every
    comparison with them is then false, so nothing is significant.
    """

    mean: float
    low: float
    high: float

    def as_record(self) -> dict[str, float | None]:
        """As it is written to a result, with four decimals; what is not a number is null."""
        ends = {"mean": self.mean, "low": self.low, "high": self.high}
        # Adding 0 turns a negative zero into zero.
        return {
            name: None if math.isnan(end) else round(end, 4) + 0.0 for name, end in ends.items()
        }


def mean_interval(values: Sequence[float], clusters: Sequence[str]) -> Estimate:
    """The mean over questions, with its bootstrap percentile interval if there are enough of them.

    Several conversations are drawn whole, with all their questions; of one alone questions are
    drawn.
    """
    observed = np.asarray(values, dtype=np.float64)
    sums, counts = _totals(observed, clusters)
    mean = math.fsum(values) / len(values)
    if len(values) < MIN_QUESTIONS:
        return Estimate(mean, math.nan, math.nan)
    from scipy.stats import bootstrap  # its import takes seconds

    found = bootstrap(
        (sums, counts),
        _ratio,
        paired=True,
        vectorized=True,
        axis=-1,
        n_resamples=BOOTSTRAP_SAMPLES,
        batch=_BATCH,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),  # the same values have the same interval
    ).confidence_interval
    return Estimate(mean, float(found.low), float(found.high))


def paired_difference(
    new: Sequence[float], old: Sequence[float], clusters: Sequence[str]
) -> Estimate:
    """The mean of `new - old` over the same questions in the same order, with its interval."""
    differences = [after - before for after, before in zip(new, old, strict=True)]
    return mean_interval(differences, clusters)


def _totals(values: _Floats, clusters: Sequence[str]) -> tuple[_Floats, _Floats]:
    """The sum and the count of each unit that is drawn: conversations, else questions."""
    place = {name: number for number, name in enumerate(dict.fromkeys(clusters))}
    if len(place) < 2:
        return values, np.ones_like(values)
    of_value = [place[name] for name in clusters]
    sums, counts = np.bincount(of_value, weights=values), np.bincount(of_value)
    return sums.astype(np.float64), counts.astype(np.float64)


def _ratio(sums: _Floats, counts: _Floats, axis: int = -1) -> _Floats:
    """The mean over the questions of the units drawn, which need not be equally many."""
    ratio: _Floats = sums.sum(axis=axis) / counts.sum(axis=axis)
    return ratio
