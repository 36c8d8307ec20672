"""A ranking profile: which legs run, how they are fused, and how the result is reordered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

from serving.domain.briefing import BlockForm
from serving.domain.ranking.diversity import MMR_POOL, MMR_TRADE_OFF
from serving.domain.ranking.faults import FieldError, require_range
from serving.domain.ranking.fusion import PUBLISHED_RANK_CONSTANT
from serving.domain.ranking.ledger import FusionMethod
from serving.domain.ranking.leg_options import CandidatePool, Expansion, Walk, WordsSearch
from serving.domain.ranking.priors import Decay, Importance
from serving.domain.ranking.ranked_list import RankStyle
from serving.domain.ranking.signals import SIGNALS

MAX_LIMIT = 100
MAX_DEPTH = 1000
MAX_WEIGHT = 1000.0


class Yields(StrEnum):
    """The contribution of a leg that finds facts to the fusion."""

    EVIDENCE = "evidence"
    FACTS = "facts"


class Sort(StrEnum):
    """The sort order of the hits."""

    RELEVANCE = "relevance"
    """By score."""
    IMPORTANCE = "importance"
    """By score; equal scores by importance."""
    RECENCY = "recency"
    """By event time, the latest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegSpec:
    """One leg of a profile, with its weight in the fusion.

    Attributes:
        depth: The maximum length of its list.
        depth_per_limit: If above 0, the depth is this number times the limit of the answer.
        floor: Candidates with a lower score are dropped; None for no floor.
        least_score: Its theoretical minimum score, for convex combinations: -1 for cosines.
        lookback: How far back from the clock of the request it searches; None for all time.
        yields: What it contributes if it finds facts.
        reserved: The number of places in the answer that are reserved for its best candidates.
        reorders: Declares that at its weight it cannot add a hit that no other leg found.
        may_fill: Declares that at its weight it may fill the answer alone.
        pool: The pool that the dense leg ranks; None searches everything.
        late_interaction: Whether the dense leg orders the nearest turns by their words too.
        expansion: The seeds of a leg that expands the candidates of other legs.
        named_times: Searches only the times that the question names, and nothing if it names none.
        about_asker: Finds what speakers told of themselves, for a question for what is known of who
            asks, and nothing for another.
    """

    name: str
    weight: float = 1.0
    depth: int = 20
    depth_per_limit: int = 0
    floor: float | None = None
    least_score: float = 0.0
    lookback: timedelta | None = None
    yields: Yields = Yields.EVIDENCE
    reserved: int = 0
    reorders: bool = False
    may_fill: bool = False
    words: WordsSearch = WordsSearch()
    pool: CandidatePool | None = None
    late_interaction: bool = False
    walk: Walk = Walk()
    expansion: Expansion | None = None
    named_times: bool = False
    about_asker: bool = False

    def __post_init__(self) -> None:
        require_range("weight", self.weight, 0, MAX_WEIGHT)
        require_range("depth", self.depth, 1, MAX_DEPTH)
        require_range("depth_per_limit", self.depth_per_limit, 0, MAX_DEPTH)
        if self.floor is not None and not math.isfinite(self.floor):
            raise FieldError.of("floor", f"must be finite, got {self.floor}")
        if not math.isfinite(self.least_score):
            raise FieldError.of("least_score", f"must be finite, got {self.least_score}")
        if self.lookback is not None and self.lookback <= timedelta(0):
            raise FieldError.of("lookback", f"must be positive, got {self.lookback}")
        require_range("reserved", self.reserved, 0, MAX_LIMIT)

    @property
    def leans_on(self) -> tuple[str, ...]:
        """The legs whose candidates it needs before it can search."""
        pool = self.pool.joined_by if self.pool is not None else ()
        expansion = self.expansion.found_by if self.expansion is not None else ()
        return (*pool, *self.walk.seeds_from, *expansion)

    def depth_for(self, limit: int) -> int:
        """Its depth for an answer of `limit` hits."""
        return min(self.depth_per_limit * limit, MAX_DEPTH) if self.depth_per_limit else self.depth


def by_need(legs: Sequence[LegSpec]) -> tuple[LegSpec, ...]:
    """Orders legs by their dependencies; otherwise the order is kept.

    Raises:
        ValueError: The dependencies form a cycle, or name a leg that is missing.
    """
    ordered: list[LegSpec] = []
    waiting = list(legs)
    while waiting:
        there = {leg.name for leg in ordered}
        ready = next((leg for leg in waiting if there.issuperset(leg.leans_on)), None)
        if ready is None:
            names = ", ".join(leg.name for leg in waiting)
            raise FieldError.of(
                "legs", f"depend on each other in a cycle, or on a missing leg: {names}"
            )
        ordered.append(ready)
        waiting.remove(ready)
    return tuple(ordered)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalSpec:
    """A signal of a profile, and its weight in the fusion."""

    name: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in SIGNALS:
            raise FieldError.of("name", f"must be one of {', '.join(SIGNALS)}, got {self.name!r}")
        require_range("weight", self.weight, 0, MAX_WEIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerank:
    """Reranking by a cross-encoder: the most hits (`head`), and the weight of its score."""

    head: int = 50
    weight: float = 0.7

    def __post_init__(self) -> None:
        require_range("head", self.head, 1, MAX_DEPTH)
        require_range("weight", self.weight, 0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diversity:
    """The parameters of maximal marginal relevance."""

    trade_off: float = MMR_TRADE_OFF
    pool: int = MMR_POOL
    relative: bool = True
    """Divides relevance by the best score of the pool. Raw reciprocal-rank scores are near 0.02,
    so without this the penalty dominates (LoCoMo recall@10 .641 -> .457)."""

    def __post_init__(self) -> None:
        require_range("trade_off", self.trade_off, 0, 1)
        require_range("pool", self.pool, 1, MAX_DEPTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A named ranking profile."""

    name: str
    legs: tuple[LegSpec, ...]
    """Each after the legs that it leans on (`by_need`)."""
    description: str = ""
    limit: int = 10
    fusion: FusionMethod = FusionMethod.RECIPROCAL_RANK
    rank_constant: float = PUBLISHED_RANK_CONSTANT
    rank_style: RankStyle = RankStyle.MEAN
    signals: tuple[SignalSpec, ...] = ()
    importance: Importance = Importance()
    decay: Decay | None = None
    rerank: Rerank | None = None
    fold_repeats: bool = True
    """Shows one of the items in which a speaker says the same, and ranks them as one."""
    diversity: Diversity | None = None
    sort: Sort = Sort.RELEVANCE
    resolve_names: bool = False
    """Replaces a word of the question that the tenant has not stored by the stored name that it
    sounds like, or is a prefix of."""
    block: BlockForm = BlockForm.DATED
    """The form of the block for a prompt."""
    split_questions: bool = False
    """The dense legs search for each question of a text with several questions."""
    adjacent: float = 0.0
    """The share of their scores that the first hits give to the turns next to them."""
    current_first: bool = False
    """Puts statements before stored questions, and what holds before what once held."""
    in_memory: bool = True
    """Whether what a replica has in memory answers in place of PostgreSQL and Neo4j."""

    def __post_init__(self) -> None:
        names = [*(leg.name for leg in self.legs), *(signal.name for signal in self.signals)]
        if not self.legs or len(set(names)) != len(names):
            raise FieldError.of("legs", f"and signals must be named, each once, got {names}")
        if not any(leg.weight for leg in self.legs):
            raise FieldError.of("legs", "must not all have weight 0")
        require_range("limit", self.limit, 1, MAX_LIMIT)
        if not (math.isfinite(self.rank_constant) and self.rank_constant > 0):
            raise FieldError.of("rank_constant", f"must be above 0, got {self.rank_constant}")
        require_range("adjacent", self.adjacent, 0, 1)
        if self.signals and self.fusion is not FusionMethod.RECIPROCAL_RANK:
            raise FieldError.of("signals", "are ranks, so fusion must be reciprocal_rank with them")
        for name in ("rerank", "diversity"):
            if getattr(self, name) is not None and self.sort is not Sort.RELEVANCE:
                why = f"is for relevance, and sort is {self.sort}: leave one out"
                raise FieldError.of(name, why)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each leg and signal."""
        legs = {leg.name: leg.weight for leg in self.legs}
        return legs | {signal.name: signal.weight for signal in self.signals}

    @property
    def least_scores(self) -> dict[str, float]:
        """The theoretical minimum score of each leg for which it is not 0."""
        return {leg.name: leg.least_score for leg in self.legs if leg.least_score}

    def leg(self, name: str) -> LegSpec:
        """The leg of that name; raises `KeyError` if there is none."""
        return {leg.name: leg for leg in self.legs}[name]

    def with_overrides(self, overrides: Mapping[str, LegOverride]) -> Profile:
        """The profile with some legs changed.

        Raises:
            KeyError: An override names a leg that the profile lacks.
            ValueError: A value is out of range.
        """
        if not overrides:
            return self
        for name in overrides:
            self.leg(name)
        none = LegOverride()
        legs = tuple(overrides.get(leg.name, none).applied(leg) for leg in self.legs)
        return replace(self, legs=legs)


@dataclass(frozen=True, slots=True, kw_only=True)
class LegOverride:
    """The changes of a call to one leg; None keeps the value."""

    weight: float | None = None
    depth: int | None = None

    def applied(self, leg: LegSpec) -> LegSpec:
        """The leg with the changes made."""
        return replace(
            leg,
            weight=leg.weight if self.weight is None else self.weight,
            depth=leg.depth if self.depth is None else self.depth,
            depth_per_limit=leg.depth_per_limit if self.depth is None else 0,
        )
