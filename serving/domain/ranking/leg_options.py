"""Options of individual legs beyond weight and depth; the defaults have no effect."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from serving.domain.ranking.faults import FieldError, require_range


class WordsMode(StrEnum):
    """The matching and scoring of the lexical leg."""

    BM25 = "bm25"
    """Rows with any word, within a candidate budget, by a BM25-like score."""
    ANY = "any"
    """Rows with any word, by cover density (`ts_rank_cd`). Slow for a large tenant."""
    ALL_THEN_ANY = "all_then_any"
    """Rows with all words, by `ts_rank`; if they do not fill the answer, rows with any word."""


MAX_PART_WEIGHT = 10.0
MAX_POOL = 1000
MAX_SEEDS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class WordsSearch:
    """The search of the lexical leg.

    `rank_gate` is for ALL_THEN_ANY: a row with only some of the words counts if its `ts_rank`
    is above it.

    `title`, `keywords` and `speaker` are what a word counts there; in the text it counts 1. With 0
    a row is not found by such a word alone.
    """

    mode: WordsMode = WordsMode.BM25
    rank_gate: float = 0.01
    title: float = 1.0
    keywords: float = 1.0
    speaker: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rank_gate) and self.rank_gate >= 0):
            raise FieldError.of("rank_gate", f"must be 0 or more, got {self.rank_gate}")
        for part in ("title", "keywords", "speaker"):
            require_range(part, getattr(self, part), 0, MAX_PART_WEIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatePool:
    """Restricts a leg to a pool of segments: it ranks them instead of searching everything.

    `recently_accessed` is the number of most recently accessed segments in the pool (a segment
    that was never shown counts by its event time). `joined_by` names legs, earlier in the
    profile, whose candidates are added.
    """

    recently_accessed: int
    joined_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_range("recently_accessed", self.recently_accessed, 0, MAX_POOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """The seeds of a leg that expands the candidates of other legs.

    `found_by` names those legs of the same profile. Their lists are fused by rank, and the
    first `seeds` segments are the seeds.
    """

    found_by: tuple[str, ...]
    seeds: int = 5

    def __post_init__(self) -> None:
        if not self.found_by:
            raise FieldError.of("found_by", "must name a leg")
        require_range("seeds", self.seeds, 1, MAX_SEEDS)


class WalkOrder(StrEnum):
    """The order of the items that a graph walk reaches."""

    ACTIVATION = "activation"
    """By activation: divided among relations, halved by each hop, summed over all paths."""
    DISTANCE = "distance"
    """By the number of hops, then by the position of the relation in `relations`."""


class WalkDirection(StrEnum):
    """The direction in which a walk follows relations."""

    BOTH = "both"
    FORWARD = "forward"
    """From subject to object: what does this call?"""
    BACKWARD = "backward"
    """From object to subject: what calls this?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The walk of the graph leg.

    Only `relations` are followed, compared without case; empty means all. `seeds_from` names legs
    of the profile whose candidates, fused by rank, are the seeds of the walk; empty means the
    entities that the question names. Seeds in the request replace both.

    A walk starts at the entities that its seeds represent. With `mentions` it starts at those that
    the question names, and at all that the seeds represent or mention, with the activation 1 / rank
    of their seed.
    """

    order: WalkOrder = WalkOrder.ACTIVATION
    direction: WalkDirection = WalkDirection.BOTH
    relations: tuple[str, ...] = ()
    hops: int = 2
    seeds_from: tuple[str, ...] = ()
    mentions: bool = False

    def __post_init__(self) -> None:
        if self.hops not in (1, 2):
            raise FieldError.of("hops", f"must be 1 or 2, got {self.hops}")
        if self.mentions and self.order is WalkOrder.DISTANCE:
            raise FieldError.of(
                "mentions", "is for the order activation: a mention has no distance"
            )
