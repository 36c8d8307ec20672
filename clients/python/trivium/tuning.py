"""The values for tuning: profiles, comparisons, and explanations of absent items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trivium.values import Hit, ItemRef, LegState, Retrieval


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A ranking profile.

    `definition` has all of its fields, in the form of a profile file; `notes` has a note on a leg,
    by its name.
    """

    name: str
    description: str
    definition: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankChange:
    """The ranks of an item under two profiles; None if it is not a hit."""

    item: ItemRef
    rank: int | None
    against_rank: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One query under two profiles; `overlap` is the share of common items, 0 to 1."""

    retrieved: Retrieval
    against: Retrieval
    overlap: float
    rank_changes: tuple[RankChange, ...]


class Loss(StrEnum):
    """The stage that lost an item."""

    UNKNOWN = "unknown"
    """A stage that this version of the client does not know."""
    NONE = "not lost"
    """It is a hit."""
    NOT_STORED = "not stored"
    FILTERED = "filtered"
    NOT_PROJECTED = "not projected"
    NOT_MATCHED = "not matched"
    BELOW_DEPTH = "below depth"
    NOT_SEARCHED = "not searched"
    """A leg would find it with a longer lookback or a larger pool."""
    UNANSWERED = "unanswered"
    """A leg that could find it did not answer, in the query or in the deeper search."""
    FOLDED = "folded"
    LESS_IMPORTANT = "less important"
    """Without weighing by importance it would be a hit."""
    DECAYED = "decayed"
    BELOW_HEAD = "below head"
    RERANKED_DOWN = "reranked down"
    OUTDATED = "outdated"
    """A statement of another time about the same thing moved it below the limit."""
    DISPLACED = "displaced"
    CUT = "cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class LegAbsence:
    """The result of one leg for an item.

    `rank` and `score` are those of a search as deep as possible, if necessary without lookback and
    pool; None if it is still not found. `depth` is that of the query. `reason` says why the leg did
    not find it in the query; empty if it did.
    """

    leg: str
    state: LegState
    rank: float | None
    score: float | None
    depth: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Why an item is not a hit.

    Attributes:
        loss: The stage that lost it.
        reason: The reason, for people, with its numbers.
        by: The item that it was folded into, or that took its place.
        rank: Its rank if there were no limit; None if it was lost before ranking.
        hit: The item with its ledger; None if it was lost before ranking.
        legs: The result of each leg.
    """

    loss: Loss
    reason: str
    by: ItemRef | None
    rank: int | None
    hit: Hit | None
    legs: tuple[LegAbsence, ...]
