"""A logistic regression over the features of a pair, with its weights in a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from serving.domain.ranking.holds.pairs import Pairs, Vector

TABLE = "weights.json"


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of each feature by name, and the logit of a pair that has none of them."""

    bias: float
    of: Mapping[str, float]

    def logits(self, features: Mapping[str, Vector]) -> Any:
        """The sum of features, each with its weight."""
        rows = np.array(list(features.values()), dtype=np.float64)
        weights = np.array([self.of[name] for name in features])
        return (weights @ rows.reshape(len(rows), -1)).reshape(rows.shape[1:])


@dataclass(frozen=True, slots=True)
class Model:
    """Weights with cosines, and those for candidates of which one has no vector."""

    with_vectors: Weights
    without_vectors: Weights

    def probabilities(self, pairs: Pairs) -> Vector:
        """The probability that each newer statement (column) outdates each older one (row).

        Zero where the column is not newer.
        """
        features = pairs.features()
        weights = self.with_vectors if "cosine" in features.of_both else self.without_vectors
        logits = (
            weights.bias
            + weights.logits(features.of_older)[:, None]
            + weights.logits(features.of_newer)[None, :]
            + weights.logits(features.of_both)
        )
        probabilities: Vector = pairs.later / (1 + np.exp(-logits))
        return probabilities


@cache
def shipped_model() -> Model:
    """The model that `python -m bench.holds` has made."""
    table = json.loads((resources.files(__package__) / TABLE).read_text(encoding="utf-8"))
    return Model(**{name: Weights(**weights) for name, weights in table.items()})
