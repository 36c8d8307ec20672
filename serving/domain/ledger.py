"""Why a hit has its score: every term, so that anyone can add it up again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from serving.domain.records import ItemId


class FusionMethod(StrEnum):
    """How what the legs found becomes one score."""

    RECIPROCAL_RANK = "reciprocal_rank"
    """The sum of weight / (rank constant + rank)."""
    CONVEX = "convex"
    """The sum of weight * (score - least) / (most - least), with the least that the leg could
    give and the most that it gave: TM2C2."""
    SCORE = "score"
    """The sum of weight * score, for one leg, or legs on one scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegTerm:
    """What one leg, or one signal, put into the fusion; `worth` says what it gave.

    `least` and `most` are the ends of the scale that a convex combination maps to 0 and 1.
    """

    leg: str
    rank: int
    weight: float
    leg_score: float
    least: float = 0.0
    most: float = 1.0
    path: str = ""
    facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportanceTerm:
    """What importance did: the score times `multiplier`, plus `boost`."""

    importance: float
    multiplier: float = 1.0
    boost: float = 0.0


@dataclass(frozen=True, slots=True)
class DecayTerm:
    """What age did: the score times `multiplier`."""

    age_s: float
    half_life_s: float
    floor: float
    multiplier: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankTerm:
    """What reranking gave: (1 - weight) * coarse score / scale + weight * sigmoid(logit).

    `scale` is the best coarse score, or 1 where coarse scores are cosines.
    """

    logit: float
    weight: float
    scale: float

    def mixed(self, coarse_score: float) -> float:
        """The score that takes the place of the coarse one."""
        return (1 - self.weight) * coarse_score / self.scale + self.weight * sigmoid(self.logit)


@dataclass(frozen=True, slots=True)
class DiversityTerm:
    """Maximal marginal relevance when the hit was chosen.

    `closest` is the hit chosen before that it was most similar to, if any was similar.
    """

    trade_off: float
    relevance: float
    max_similarity: float
    value: float
    closest: ItemId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Every term of one score.

    `reserved_by` is the leg whose reserved place the hit took, if it would not have been
    among the answer otherwise.
    """

    rank_constant: float
    leg_terms: tuple[LegTerm, ...]
    method: FusionMethod = FusionMethod.RECIPROCAL_RANK
    importance: ImportanceTerm | None = None
    decay: DecayTerm | None = None
    rerank: RerankTerm | None = None
    diversity: DiversityTerm | None = None
    reserved_by: str = ""

    @property
    def fused_score(self) -> float:
        """The sum of the legs' terms, each worked out again from what it holds."""
        return math.fsum(worth(term, self.method, self.rank_constant) for term in self.leg_terms)

    @property
    def coarse_score(self) -> float:
        """The score before reranking: fused, weighed by importance and age."""
        score = self.fused_score
        if self.importance is not None:
            score *= self.importance.multiplier
        if self.decay is not None:
            score *= self.decay.multiplier
        return score + (self.importance.boost if self.importance is not None else 0.0)

    @property
    def score(self) -> float:
        """The score, worked out again from what the ledger holds."""
        coarse = self.coarse_score
        return coarse if self.rerank is None else self.rerank.mixed(coarse)


def worth(term: LegTerm, method: FusionMethod, rank_constant: float) -> float:
    """What a leg adds to the fused score, from all of the term but `term` itself."""
    # Asked of every candidate: `is`, since a match would compare strings.
    if method is FusionMethod.RECIPROCAL_RANK:
        return term.weight / (rank_constant + term.rank)
    if method is FusionMethod.CONVEX:
        return term.weight * normalised(term.leg_score, term.least, term.most)
    return term.weight * term.leg_score


def normalised(score: float, least: float, most: float) -> float:
    """Maps [least, most] to [0, 1]; 1 where the two are one."""
    return (score - least) / (most - least) if most > least else 1.0


def sigmoid(logit: float) -> float:
    """1 / (1 + e^-logit), without overflow."""
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    grown = math.exp(logit)
    return grown / (1 + grown)
