"""Priors: the effect of importance and age, independent of the question."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from serving.domain.ranking.faults import FieldError, require_range
from serving.domain.ranking.ledger import DecayTerm, ImportanceTerm

DECAY_HALF_LIFE = timedelta(days=30)
EVERGREEN_KINDS = frozenset({"person", "place", "relationship"})
EVERGREEN_FLOOR = 0.3


class ImportanceStyle(StrEnum):
    """The rule by which importance changes a score."""

    OFF = "off"
    MULTIPLY = "multiply"
    """0.7 + 0.3 * importance."""
    BOOST = "boost"
    """Adds 1/(k+1) - 1/(k+11) above a threshold: the difference between rank 1 and rank 11."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Importance:
    """The importance prior of a profile."""

    style: ImportanceStyle = ImportanceStyle.OFF
    boost_from: float = 0.8

    def __post_init__(self) -> None:
        require_range("boost_from", self.boost_from, 0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decay:
    """The age decay of a profile.

    `evergreen_floor` is the minimum factor of evergreen kinds, `floor` that of all others.
    With `facts_are_fresh` facts do not decay.
    """

    half_life: timedelta = DECAY_HALF_LIFE
    evergreen_kinds: frozenset[str] = EVERGREEN_KINDS
    evergreen_floor: float = EVERGREEN_FLOOR
    floor: float = 0.0
    facts_are_fresh: bool = False

    def __post_init__(self) -> None:
        if self.half_life <= timedelta(0):
            raise FieldError.of("half_life", f"must be positive, got {self.half_life}")
        require_range("evergreen_floor", self.evergreen_floor, 0, 1)
        require_range("floor", self.floor, 0, 1)


def importance_term(
    prior: Importance, importance: float, rank_constant: float
) -> ImportanceTerm | None:
    """The effect of the importance of an item on its score; None if the prior is off."""
    match prior.style:
        case ImportanceStyle.OFF:
            return None
        case ImportanceStyle.MULTIPLY:
            return ImportanceTerm(importance, multiplier=0.7 + 0.3 * importance)
        case ImportanceStyle.BOOST:
            boost = 1 / (rank_constant + 1) - 1 / (rank_constant + 11)
            return ImportanceTerm(importance, boost=boost if importance >= prior.boost_from else 0)


def decay_term(decay: Decay, *, kind: str, since: datetime, as_of: datetime) -> DecayTerm:
    """The decay factor max(floor, 2^(-age / half_life)); items in the future have age 0."""
    age_s = max(0.0, (as_of - since).total_seconds())
    half_life_s = decay.half_life.total_seconds()
    floor = decay.evergreen_floor if kind in decay.evergreen_kinds else decay.floor
    return DecayTerm(age_s, half_life_s, floor, max(floor, 2.0 ** (-age_s / half_life_s)))
