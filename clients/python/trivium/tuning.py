"""What those who tune ranking read: profiles, two answers compared, an absence explained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trivium.values import Hit, LegState, Retrieval


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A ranking profile.

    `definition` has all of its fields, in the form of a profile file; `notes` what is worth
    knowing of its legs, by their names.
    """

    name: str
    description: str
    definition: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankChange:
    """Where an item is in two answers; None if it is not there."""

    id: str
    rank: int | None
    against_rank: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One question under two profiles; `overlap` is what both share of all that either has."""

    retrieved: Retrieval
    against: Retrieval
    overlap: float
    rank_changes: tuple[RankChange, ...]


class Loss(StrEnum):
    """The stage at which an item was lost."""

    UNKNOWN = "unknown"
    """A stage that this version of the client does not know."""
    NONE = "not lost"
    """It is in the answer."""
    NOT_STORED = "not stored"
    FILTERED = "filtered"
    NOT_PROJECTED = "not projected"
    NOT_MATCHED = "not matched"
    BELOW_DEPTH = "below depth"
    NOT_SEARCHED = "not searched"
    """A leg would bring it that searched more: further back, or beyond its pool."""
    UNANSWERED = "unanswered"
    """A leg that might have brought it did not answer, then or when asked to look deeper."""
    FOLDED = "folded"
    DECAYED = "decayed"
    BELOW_HEAD = "below head"
    RERANKED_DOWN = "reranked down"
    DISPLACED = "displaced"
    CUT = "cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class LegAbsence:
    """What one leg makes of an item.

    `rank` and `score` are those it has if the leg looks as deep as it can, if need be without its
    lookback and pool; None if it does not find it even then. `reason` says why the leg did not
    bring it; empty if it did.
    """

    leg: str
    state: LegState
    rank: int | None
    score: float | None
    depth: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Why an item is not in an answer.

    Attributes:
        loss: The stage at which it was lost.
        reason: The same in words, with numbers.
        by_id: The item that stands for it, or took its place; may be empty.
        rank: Its place if the answer had no end; None if it was lost before.
        hit: The item with its ledger; None if it was lost before.
        legs: What each leg makes of it.
    """

    loss: Loss
    reason: str
    by_id: str
    rank: int | None
    hit: Hit | None
    legs: tuple[LegAbsence, ...]
