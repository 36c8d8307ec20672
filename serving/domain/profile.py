"""A ranking recipe as a value: which legs, how they are fused, and what is done to the order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

from serving.domain.diversity import MMR_POOL, MMR_TRADE_OFF
from serving.domain.fusion import RRF_RANK_CONSTANT
from serving.domain.ledger import FusionMethod
from serving.domain.leg_options import CandidatePool, Expansion, Walk, WordsSearch
from serving.domain.priors import Decay, Importance
from serving.domain.ranking import RankStyle
from serving.domain.signals import SIGNALS

MAX_LIMIT = 100
MAX_DEPTH = 1000
MAX_WEIGHT = 1000.0


class Yields(StrEnum):
    """What a leg that finds facts brings into the fusion."""

    EVIDENCE = "evidence"
    FACTS = "facts"


class Sort(StrEnum):
    """What the hits are ordered by."""

    RELEVANCE = "relevance"
    """By score."""
    IMPORTANCE = "importance"
    """By score; equal scores by importance."""
    RECENCY = "recency"
    """By when it was said, the latest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegSpec:
    """One leg of a profile.

    Attributes:
        name: Its name.
        weight: Its say in the fusion.
        depth: The length of its list.
        depth_per_limit: If above 0, the length is as many times the answer's limit.
        floor: The score below which it brings nothing; None for no floor.
        least_score: The least score it could give, for convex combinations: -1 for cosines.
        lookback: How far back from the request's clock it looks; None for all time.
        yields: What it brings if it finds facts.
        reserved: How many places of the answer its best finds have for sure.
        reorders: Declares that at its weight it brings no hit that others lack.
        may_fill: Declares that at its weight it may fill the answer alone.
        words: How the leg of words searches.
        pool: What a leg of meaning ranks, if not everything.
        walk: How a leg of relations walks.
        expansion: Where a leg begins that leads on from what others found.
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
    walk: Walk = Walk()
    expansion: Expansion | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and 0 <= self.weight <= MAX_WEIGHT):
            raise ValueError(f"weight must be from 0 to {MAX_WEIGHT:g}, got {self.weight}")
        if not 1 <= self.depth <= MAX_DEPTH:
            raise ValueError(f"depth must be from 1 to {MAX_DEPTH}, got {self.depth}")
        if not 0 <= self.depth_per_limit <= MAX_DEPTH:
            raise ValueError(
                f"depth_per_limit must be from 0 to {MAX_DEPTH}, got {self.depth_per_limit}"
            )
        if self.floor is not None and not math.isfinite(self.floor):
            raise ValueError(f"floor must be finite, got {self.floor}")
        if not math.isfinite(self.least_score):
            raise ValueError(f"least_score must be finite, got {self.least_score}")
        if self.lookback is not None and self.lookback <= timedelta(0):
            raise ValueError(f"lookback must be positive, got {self.lookback}")
        if not 0 <= self.reserved <= MAX_LIMIT:
            raise ValueError(f"reserved must be from 0 to {MAX_LIMIT}, got {self.reserved}")

    @property
    def leans_on(self) -> tuple[str, ...]:
        """The legs whose finds it needs before it can search."""
        pool = self.pool.joined_by if self.pool is not None else ()
        walk = (self.walk.seeds_from,) if self.walk.seeds_from else ()
        expansion = self.expansion.found_by if self.expansion is not None else ()
        return (*pool, *walk, *expansion)

    def depth_for(self, limit: int) -> int:
        """The length of its list for an answer of `limit` hits."""
        return min(self.depth_per_limit * limit, MAX_DEPTH) if self.depth_per_limit else self.depth

    def for_limit(self, limit: int) -> LegSpec:
        """The leg as it is asked for an answer of `limit` hits, with its depth worked out."""
        return replace(self, depth=self.depth_for(limit)) if self.depth_per_limit else self


def by_need(legs: Sequence[LegSpec]) -> tuple[LegSpec, ...]:
    """Orders legs so that each comes after those that it leans on; otherwise leaves their order.

    Raises:
        ValueError: Legs lean on each other in a circle, or on one that is not there.
    """
    ordered: list[LegSpec] = []
    waiting = list(legs)
    while waiting:
        there = {leg.name for leg in ordered}
        ready = next((leg for leg in waiting if there.issuperset(leg.leans_on)), None)
        if ready is None:
            names = ", ".join(leg.name for leg in waiting)
            raise ValueError(f"legs lean on each other in a circle, or on none: {names}")
        ordered.append(ready)
        waiting.remove(ready)
    return tuple(ordered)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalSpec:
    """A signal of a profile, and its say in the fusion."""

    name: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in SIGNALS:
            raise ValueError(f"name must be one of {', '.join(SIGNALS)}, got {self.name!r}")
        if not (math.isfinite(self.weight) and 0 <= self.weight <= MAX_WEIGHT):
            raise ValueError(f"weight must be from 0 to {MAX_WEIGHT:g}, got {self.weight}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerank:
    """Reranking by a cross-encoder: how many hits of the head, and the weight of what it says."""

    head: int = 50
    weight: float = 0.7

    def __post_init__(self) -> None:
        if not 1 <= self.head <= MAX_DEPTH:
            raise ValueError(f"head must be from 1 to {MAX_DEPTH}, got {self.head}")
        if not 0 <= self.weight <= 1:
            raise ValueError(f"weight must be from 0 to 1, got {self.weight}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diversity:
    """Maximal marginal relevance, for the profiles that ask for it."""

    trade_off: float = MMR_TRADE_OFF
    pool: int = MMR_POOL
    relative: bool = True
    """Relevance as a share of the pool's best. On raw reciprocal-rank scores, which
    lie near 0.02, the penalty decides alone (LoCoMo recall@10 .641 -> .457)."""

    def __post_init__(self) -> None:
        if not 0 <= self.trade_off <= 1:
            raise ValueError(f"trade_off must be from 0 to 1, got {self.trade_off}")
        if not 1 <= self.pool <= MAX_DEPTH:
            raise ValueError(f"pool must be from 1 to {MAX_DEPTH}, got {self.pool}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A named recipe."""

    name: str
    legs: tuple[LegSpec, ...]
    description: str = ""
    limit: int = 10
    fusion: FusionMethod = FusionMethod.RECIPROCAL_RANK
    rank_constant: float = RRF_RANK_CONSTANT
    rank_style: RankStyle = RankStyle.ORDINAL
    signals: tuple[SignalSpec, ...] = ()
    importance: Importance = Importance()
    decay: Decay | None = None
    rerank: Rerank | None = None
    fold_from: float | None = 0.9
    """The word overlap from which two hits are one; None folds nothing."""
    diversity: Diversity | None = None
    sort: Sort = Sort.RELEVANCE
    resolve_names: bool = False
    """A word of the question that the tenant has stored nowhere is read as the name of the
    tenant's that it sounds like, or is short for."""
    split_questions: bool = False
    """Legs of meaning look up each question of a text that asks several."""

    def __post_init__(self) -> None:
        names = [*(leg.name for leg in self.legs), *(signal.name for signal in self.signals)]
        if not self.legs or len(set(names)) != len(names):
            raise ValueError(f"legs and signals must be named, each once, got {names}")
        if not any(leg.weight for leg in self.legs):
            raise ValueError("legs must not all have weight 0")
        if not 1 <= self.limit <= MAX_LIMIT:
            raise ValueError(f"limit must be from 1 to {MAX_LIMIT}, got {self.limit}")
        if not (math.isfinite(self.rank_constant) and self.rank_constant > 0):
            raise ValueError(f"rank_constant must be above 0, got {self.rank_constant}")
        if self.fold_from is not None and not 0 < self.fold_from <= 1:
            raise ValueError(f"fold_from must be above 0 and at most 1, got {self.fold_from}")
        if self.signals and self.fusion is not FusionMethod.RECIPROCAL_RANK:
            raise ValueError("signals are ranks, so fusion must be reciprocal_rank with them")
        self._check_order_of_legs()
        self._check_reordering()

    def _check_order_of_legs(self) -> None:
        for place, leg in enumerate(self.legs):
            earlier = {before.name for before in self.legs[:place]}
            if missing := [name for name in leg.leans_on if name not in earlier]:
                raise ValueError(
                    f"leg {leg.name!r} needs what {missing} found, which must come before it"
                )

    def _check_reordering(self) -> None:
        pool = sum(leg.depth_for(self.limit) for leg in self.legs if leg.weight)
        if self.rerank is not None and self.rerank.head > pool:
            raise ValueError(
                f"rerank.head is {self.rerank.head}, but the legs bring at most {pool} candidates"
            )
        if self.rerank is not None and self.sort is not Sort.RELEVANCE:
            raise ValueError(f"rerank is for relevance, and sort is {self.sort}: leave one out")
        if self.diversity is not None and self.sort is not Sort.RELEVANCE:
            raise ValueError(f"diversity is for relevance, and sort is {self.sort}: leave one out")

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each leg and signal."""
        legs = {leg.name: leg.weight for leg in self.legs}
        return legs | {signal.name: signal.weight for signal in self.signals}

    @property
    def least_scores(self) -> dict[str, float]:
        """The least score of each leg that has another than 0."""
        return {leg.name: leg.least_score for leg in self.legs if leg.least_score}

    def leg(self, name: str) -> LegSpec:
        """The leg of that name.

        Raises:
            KeyError: The profile has no such leg.
        """
        for leg in self.legs:
            if leg.name == name:
                return leg
        raise KeyError(name)

    def with_overrides(self, overrides: Mapping[str, LegOverride]) -> Profile:
        """The profile with some legs changed; names that it lacks are an error.

        Raises:
            KeyError: An override names a leg that the profile lacks.
            ValueError: A value is out of range.
        """
        for name in overrides:
            self.leg(name)
        return replace(
            self,
            legs=tuple(overrides.get(leg.name, LegOverride()).applied(leg) for leg in self.legs),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LegOverride:
    """What a call changes in one leg; None leaves it."""

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
