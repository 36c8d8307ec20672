"""Scores ranked lists against binary judgments, and says how sure a mean is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass

import numpy as np

BOOTSTRAP_SAMPLES = 2000
CONFIDENCE = 0.95


def recall_at(depth: int, ranked: Sequence[str], relevant: AbstractSet[str]) -> float:
    """The share of what is relevant that is among the first `depth`."""
    return len(relevant & set(ranked[:depth])) / len(relevant)


def ndcg_at(depth: int, ranked: Sequence[str], relevant: AbstractSet[str]) -> float:
    """The discounted gain of the first `depth`, of the best that could be had.

    Judgments are binary, so a relevant id at rank r gains 1 / log2(r + 1).

    Source:
        Järvelin, Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 2002.
    """
    ranks = [rank for rank, id_ in enumerate(ranked[:depth], start=1) if id_ in relevant]
    best = range(1, min(depth, len(relevant)) + 1)
    return _discounted(ranks) / _discounted(best)


def reciprocal_rank_at(depth: int, ranked: Sequence[str], relevant: AbstractSet[str]) -> float:
    """One divided by the rank of the first relevant id; 0 beyond `depth`."""
    for rank, id_ in enumerate(ranked[:depth], start=1):
        if id_ in relevant:
            return 1 / rank
    return 0.0


def _discounted(ranks: Sequence[int] | range) -> float:
    return math.fsum(1 / math.log2(rank + 1) for rank in ranks)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with the interval that covers the true one in 95 of 100 samples of queries."""

    mean: float
    low: float
    high: float

    def as_record(self) -> dict[str, float]:
        """As it is written to a result."""
        return asdict(self)


def estimate(scores: Sequence[float], seed: int = 0) -> Estimate:
    """The mean over queries, with a bootstrap percentile interval over 2,000 samples.

    Args:
        scores: One for each query; not empty.
        seed: Of the samples.
    """
    values = np.asarray(scores, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(len(values), size=(BOOTSTRAP_SAMPLES, len(values)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values[drawn].mean(axis=1), [tail, 1 - tail])
    return Estimate(*(round(float(each), 4) for each in (values.mean(), low, high)))
