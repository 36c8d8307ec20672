"""Fits the weights of pairs: which newer statement outdates which older one, for a question.

A pair counts by what is known of it: what is over and what answers instead; what holds and what
looks like its successor, which counts most; and what nobody judged, which counts hardly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.holds.cases import Case
from serving.domain.ranking.holds.model import Model, Weights
from serving.domain.ranking.holds.pairs import HEAD, Pairs
from serving.domain.ranking.holds.question import Question

Array = NDArray[Any]

TRAP = 6.0
"""The weight of a pair of a statement that holds and a look-alike, or of two that both hold."""

PARTLY = 0.3
"""The weight of a pair with a partial answer, or of an outdated statement and any later one."""

UNJUDGED = 0.03
"""The weight of a pair of which neither answers."""

OF_CONVERSATIONS = 0.15
"""The weight of a pair of a set without a question about changes."""

MAX_CHANGES, MAX_HOLDS = 4.0, 12.0
"""The greatest weights of all pairs of a question: those that outdate and those that do not."""

SAMPLED = 0.05
"""The share of the unjudged pairs that is taken, each counting as many times as much."""

RIDGE = 60.0
STEPS = 12

MIN_SPREAD = 1e-6
"""Below which the standard deviation of a feature is not taken."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The pairs of a question: their features by name, and the label and the weight of each."""

    case: Case
    features: Mapping[str, Array]
    labels: Array
    weights: Array


def sample_of(case: Case, random: np.random.Generator) -> Sample | None:
    """The pairs of a question to learn from; None if it has none, or asks for what once held."""
    asked = Question(case.text)
    if case.category == "history" or asked.asks_for_past or not case.head:
        return None
    pairs = Pairs(asked, case.head[:HEAD])
    older, newer = np.nonzero(pairs.later)
    judged = [label(case, o, n) for o, n in zip(older.tolist(), newer.tolist(), strict=True)]
    labels = np.array([found[0] if found else 0 for found in judged], dtype=np.float64)
    weights = np.array([found[1] if found else 0.0 for found in judged])
    positive, held = labels > 0, (labels == 0) & (weights >= PARTLY)
    scale = np.ones(len(labels))
    scale[positive] = MAX_CHANGES / max(positive.sum(), 2)
    scale[held] = MAX_HOLDS / max(held.sum(), MAX_HOLDS)
    unjudged = ~positive & ~held & (weights > 0)
    taken = ~unjudged | (random.random(len(labels)) < SAMPLED)
    scale[unjudged] /= SAMPLED
    weights = weights * scale * taken * (1.0 if case.is_about_changes else OF_CONVERSATIONS)
    kept = np.nonzero(weights)[0]
    if not len(kept):
        return None
    features = pairs.features().of_pairs(older[kept], newer[kept])
    return Sample(case, features, labels[kept], weights[kept])


def label(case: Case, older: int, newer: int) -> tuple[int, float] | None:
    """Whether the newer candidate outdates the older, and what that counts; None if open."""
    best = max(case.golds.values())
    if older in case.over:
        if newer in case.gold:
            return 1, 1.0 if case.gold[newer] == best else PARTLY
        return None if newer in case.over else (0, PARTLY)
    if older in case.gold:
        if case.gold[older] == best or not case.changed:
            return 0, TRAP if newer in case.traps or newer in case.gold else 1.0
        return None if newer in case.gold else (0, PARTLY)
    return None if newer in case.gold else (0, UNJUDGED)


def fit(samples: Sequence[Sample]) -> Model:
    """The model of these pairs, with and without what needs vectors."""
    names = list(samples[0].features)
    with_vectors = _fit(samples, names)
    without = _fit(samples, [name for name in names if not name.startswith("cosine")])
    return Model(with_vectors, without)


def _fit(samples: Sequence[Sample], names: Sequence[str]) -> Weights:
    """Logistic regression with a ridge, by Newton's method over standardised features."""
    rows = np.concatenate(
        [np.stack([each.features[name] for name in names], axis=1) for each in samples]
    ).astype(np.float64)
    labels = np.concatenate([each.labels for each in samples])
    weights = np.concatenate([each.weights for each in samples])
    mean, spread = np.average(rows, axis=0, weights=weights), rows.std(axis=0) + MIN_SPREAD
    scaled = np.c_[(rows - mean) / spread, np.ones(len(rows))]
    ridge = np.full(len(names) + 1, RIDGE)
    ridge[-1] = 0.0  # the bias is free
    found = np.zeros(len(names) + 1)
    for _ in range(STEPS):
        likely = 1 / (1 + np.exp(-scaled @ found))
        slope = scaled.T @ (weights * (likely - labels)) + ridge * found
        curve = (scaled.T * (weights * likely * (1 - likely))) @ scaled + np.diag(ridge)
        found -= np.linalg.solve(curve, slope)
    of = found[:-1] / spread
    return Weights(float(found[-1] - of @ mean), dict(zip(names, of.tolist(), strict=True)))
