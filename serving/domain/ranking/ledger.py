"""The ledger of a hit: every term of its score, so that it can be recomputed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from serving.domain.items.records import ItemId


class FusionMethod(StrEnum):
    """The rule by which ranks or scores of the legs become one score."""

    RECIPROCAL_RANK = "reciprocal_rank"
    """The sum of weight / (rank constant + rank)."""
    CONVEX = "convex"
    """The sum of weight * (score - least) / (most - least), where `least` is the theoretical
    minimum of the leg and `most` the maximum of its list (TM2C2)."""
    SCORE = "score"
    """The sum of weight * score, for a single leg or for legs on the same scale."""


class LegTerm(NamedTuple):
    """The input of one leg, or one signal, to the fusion; `worth` computes its term.

    `least` and `most` are the scores that a convex combination maps to 0 and 1.
    """

    leg: str
    rank: float
    weight: float
    leg_score: float
    least: float = 0.0
    most: float = 1.0
    path: str = ""
    facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AdjacentTerm:
    """The share of the score of `by`, a turn next to the item, that is added to its own."""

    share: float
    score: float
    by: ItemId


@dataclass(frozen=True, slots=True)
class ImportanceTerm:
    """The effect of importance: the score times `multiplier`, plus `boost`."""

    importance: float
    multiplier: float = 1.0
    boost: float = 0.0


@dataclass(frozen=True, slots=True)
class DecayTerm:
    """The effect of age: the score times `multiplier`."""

    age_s: float
    half_life_s: float
    floor: float
    multiplier: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankTerm:
    """The effect of reranking: (1 - weight) * coarse score / scale + weight * sigmoid(logit).

    `scale` is the best coarse score, or 1 if coarse scores are cosines.
    """

    logit: float
    weight: float
    scale: float

    def mixed(self, coarse_score: float) -> float:
        """The score that replaces the coarse score."""
        return (1 - self.weight) * coarse_score / self.scale + self.weight * sigmoid(self.logit)


class CurrencyReason(StrEnum):
    """Why a score is multiplied by a factor of currency."""

    ASKS = "asks"
    """The item only asks something, or repeats the question."""
    LACKS_CODE = "lacks_code"
    """Others have the code or the number of the question, and the item has not."""
    CLOSED = "closed"
    """It is a fact that holds no more, or evidence of such facts alone."""
    TAKES_PLACE = "takes_place"
    """It probably answers in place of another statement about the same thing."""


@dataclass(frozen=True, slots=True)
class CurrencyTerm:
    """The effect of what holds now: the score times `factor`.

    `by` is the statement whose place the item takes; None if the reason lies in the item alone.
    """

    factor: float
    reason: CurrencyReason
    by: ItemId | None = None


@dataclass(frozen=True, slots=True)
class DiversityTerm:
    """The maximal marginal relevance of the hit when it was chosen.

    `closest` is the most similar hit that was chosen earlier; None if none was similar.
    """

    trade_off: float
    relevance: float
    max_similarity: float
    value: float
    closest: ItemId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All terms of one score.

    `reserved_by` is the leg whose reserved place the hit has; empty if the hit would be in the
    answer without it.
    """

    rank_constant: float
    leg_terms: tuple[LegTerm, ...]
    method: FusionMethod = FusionMethod.RECIPROCAL_RANK
    adjacent: tuple[AdjacentTerm, ...] = ()
    importance: ImportanceTerm | None = None
    decay: DecayTerm | None = None
    rerank: RerankTerm | None = None
    currency: tuple[CurrencyTerm, ...] = ()
    diversity: DiversityTerm | None = None
    reserved_by: str = ""
    tenant_weight: float | None = None
    """The weight of the item's tenant, if several were asked."""

    @property
    def fused_score(self) -> float:
        """The sum of the terms of all legs, recomputed from their values."""
        return math.fsum(worth(term, self.method, self.rank_constant) for term in self.leg_terms)

    @property
    def coarse_score(self) -> float:
        """The score before reranking: with shares of turns next to it, importance and age."""
        score = self.fused_score
        if self.adjacent:
            score += math.fsum(term.share * term.score for term in self.adjacent)
        if self.importance is not None:
            score *= self.importance.multiplier
        if self.decay is not None:
            score *= self.decay.multiplier
        return score + (self.importance.boost if self.importance is not None else 0.0)

    @property
    def score(self) -> float:
        """The final score, recomputed from the terms: it orders the hits."""
        coarse = self.coarse_score
        score = coarse if self.rerank is None else self.rerank.mixed(coarse)
        for term in self.currency:
            score *= term.factor
        return score if self.tenant_weight is None else score * self.tenant_weight


def worth(term: LegTerm, method: FusionMethod, rank_constant: float) -> float:
    """The contribution of a leg to the fused score."""
    # Called for every candidate: `is` is faster than a match, which compares strings.
    if method is FusionMethod.RECIPROCAL_RANK:
        return term.weight / (rank_constant + term.rank)
    if method is FusionMethod.CONVEX:
        return term.weight * normalised(term.leg_score, term.least, term.most)
    return term.weight * term.leg_score


def normalised(score: float, least: float, most: float) -> float:
    """Maps [least, most] to [0, 1]; 1 if both are equal."""
    return (score - least) / (most - least) if most > least else 1.0


def sigmoid(logit: float) -> float:
    """1 / (1 + e^-logit), without overflow."""
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    grown = math.exp(logit)
    return grown / (1 + grown)
