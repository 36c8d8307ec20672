"""What is known of an item before the question: its importance and its age."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from serving.domain.ledger import DecayTerm, ImportanceTerm

DECAY_HALF_LIFE = timedelta(days=30)
EVERGREEN_KINDS = frozenset({"person", "place", "relationship"})
EVERGREEN_FLOOR = 0.3


class ImportanceStyle(StrEnum):
    """How importance enters a score."""

    OFF = "off"
    MULTIPLY = "multiply"
    """0.7 + 0.3 * importance."""
    BOOST = "boost"
    """1/(k+1) - 1/(k+11) for what is important enough: worth ten places at the top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Importance:
    """The importance prior of a profile."""

    style: ImportanceStyle = ImportanceStyle.OFF
    boost_from: float = 0.8

    def __post_init__(self) -> None:
        if not 0 <= self.boost_from <= 1:
            raise ValueError(f"boost_from must be from 0 to 1, got {self.boost_from}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decay:
    """The ageing of a profile.

    `evergreen_floor` is the least factor of evergreen kinds, `floor` that of all others.
    With `facts_are_fresh` a fact counts as said just now, however old.
    """

    half_life: timedelta = DECAY_HALF_LIFE
    evergreen_kinds: frozenset[str] = EVERGREEN_KINDS
    evergreen_floor: float = EVERGREEN_FLOOR
    floor: float = 0.0
    facts_are_fresh: bool = False

    def __post_init__(self) -> None:
        if self.half_life <= timedelta(0):
            raise ValueError(f"half_life must be positive, got {self.half_life}")
        for name in ("evergreen_floor", "floor"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be from 0 to 1, got {getattr(self, name)}")


def importance_term(
    prior: Importance, importance: float, rank_constant: float
) -> ImportanceTerm | None:
    """What the importance of an item does to its score; None if the prior is off."""
    match prior.style:
        case ImportanceStyle.OFF:
            return None
        case ImportanceStyle.MULTIPLY:
            return ImportanceTerm(importance, multiplier=0.7 + 0.3 * importance)
        case ImportanceStyle.BOOST:
            boost = 1 / (rank_constant + 1) - 1 / (rank_constant + 11)
            return ImportanceTerm(importance, boost=boost if importance >= prior.boost_from else 0)


def decay_term(decay: Decay, *, kind: str, since: datetime, as_of: datetime) -> DecayTerm:
    """Ages a score: max(floor, 2^(-age / half_life)); the future has age 0."""
    age_s = max(0.0, (as_of - since).total_seconds())
    half_life_s = decay.half_life.total_seconds()
    floor = decay.evergreen_floor if kind in decay.evergreen_kinds else decay.floor
    return DecayTerm(age_s, half_life_s, floor, max(floor, 2.0 ** (-age_s / half_life_s)))
