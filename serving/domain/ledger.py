"""Why a hit has its score: every term, so that anyone can add it up again."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LegTerm:
    """What one leg gave: `term` = weight / (rank constant + rank)."""

    leg: str
    rank: int
    weight: float
    leg_score: float
    term: float
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


@dataclass(frozen=True, slots=True)
class DiversityTerm:
    """Maximal marginal relevance when the hit was chosen."""

    trade_off: float
    relevance: float
    max_similarity: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Every term of one score."""

    rank_constant: float
    leg_terms: tuple[LegTerm, ...]
    importance: ImportanceTerm | None = None
    decay: DecayTerm | None = None
    diversity: DiversityTerm | None = None

    @property
    def fused_score(self) -> float:
        """The sum of the legs' terms, from weights and ranks alone."""
        return math.fsum(term.weight / (self.rank_constant + term.rank) for term in self.leg_terms)

    @property
    def score(self) -> float:
        """The score, worked out again from what the ledger holds."""
        score = self.fused_score
        if self.importance is not None:
            score *= self.importance.multiplier
        if self.decay is not None:
            score *= self.decay.multiplier
        return score + (self.importance.boost if self.importance is not None else 0.0)
