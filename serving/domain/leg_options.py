"""What single legs can be told beyond weight and depth; the defaults ask for nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class WordsMode(StrEnum):
    """How the leg of words matches and scores."""

    BM25 = "bm25"
    """Rows with any word, within a budget of candidates, by a score of BM25's shape."""
    ANY = "any"
    """Rows with any word, by PostgreSQL's cover density (`ts_rank_cd`). Slow on a large tenant."""
    ALL_THEN_ANY = "all_then_any"
    """Rows with all words, by `ts_rank`; where they do not fill the answer, rows with any word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WordsSearch:
    """How the leg of words searches.

    `rank_gate` is for ALL_THEN_ANY: rows with some of the words count only if `ts_rank` gives
    them more.
    """

    mode: WordsMode = WordsMode.BM25
    rank_gate: float = 0.01

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rank_gate) and self.rank_gate >= 0):
            raise ValueError(f"rank_gate must be 0 or more, got {self.rank_gate}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatePool:
    """The only segments that a leg ranks: it orders a pool instead of searching everything.

    `recently_accessed` is how many of those that were shown last are in it (what was never
    shown counts by when it was said); `joined_by` names legs, earlier in the profile, whose
    finds join them.
    """

    recently_accessed: int
    joined_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.recently_accessed <= MAX_POOL:
            raise ValueError(
                f"recently_accessed must be from 0 to {MAX_POOL}, got {self.recently_accessed}"
            )


MAX_POOL = 1000


MAX_SEEDS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """Where a leg begins that leads on from what others found.

    `found_by` names those legs, beside it in the profile; their lists are fused by rank, and the
    first `seeds` segments are where it begins.
    """

    found_by: tuple[str, ...]
    seeds: int = 5

    def __post_init__(self) -> None:
        if not self.found_by:
            raise ValueError("found_by must name a leg")
        if not 1 <= self.seeds <= MAX_SEEDS:
            raise ValueError(f"seeds must be from 1 to {MAX_SEEDS}, got {self.seeds}")


class WalkOrder(StrEnum):
    """How what a walk reaches is ordered."""

    ACTIVATION = "activation"
    """By how much arrives: spread over relations, halved by a hop, added up over ways."""
    DISTANCE = "distance"
    """By the number of hops, then by the place of the relation in `relations`."""


class WalkDirection(StrEnum):
    """Which way a walk goes over a relation."""

    BOTH = "both"
    FORWARD = "forward"
    """From a subject to what it is related to: what does this call?"""
    BACKWARD = "backward"
    """From an object to what is related to it: what calls this?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """How the leg of relations walks.

    `relations` are the only ones followed, compared without regard to case; none means all.
    `seeds_from` names a leg, earlier in the profile, whose finds the walk starts from; empty
    means the entities that the question names. Ids that the request gives take their place.
    """

    order: WalkOrder = WalkOrder.ACTIVATION
    direction: WalkDirection = WalkDirection.BOTH
    relations: tuple[str, ...] = ()
    hops: int = 2
    seeds_from: str = ""

    def __post_init__(self) -> None:
        if self.hops not in (1, 2):
            raise ValueError(f"hops must be 1 or 2, got {self.hops}")
