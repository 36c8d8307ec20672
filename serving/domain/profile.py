"""A ranking recipe as a value: which legs, how they are fused, and what is done to the order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from serving.domain.diversity import MMR_POOL, MMR_TRADE_OFF
from serving.domain.fusion import RRF_RANK_CONSTANT
from serving.domain.priors import Decay, Importance
from serving.domain.ranking import RankStyle

MAX_LIMIT = 100
MAX_DEPTH = 1000
MAX_WEIGHT = 1000.0


class Yields(StrEnum):
    """What a leg that finds facts brings into the fusion."""

    EVIDENCE = "evidence"
    FACTS = "facts"


@dataclass(frozen=True, slots=True, kw_only=True)
class LegSpec:
    """One leg of a profile.

    `depth` is the length of its list, `weight` its say in the fusion,
    `floor` the score below which it brings nothing (None: no floor).
    """

    name: str
    weight: float = 1.0
    depth: int = 20
    floor: float | None = None
    yields: Yields = Yields.EVIDENCE

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and 0 <= self.weight <= MAX_WEIGHT):
            raise ValueError(f"weight must be from 0 to {MAX_WEIGHT:g}, got {self.weight}")
        if not 1 <= self.depth <= MAX_DEPTH:
            raise ValueError(f"depth must be from 1 to {MAX_DEPTH}, got {self.depth}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diversity:
    """Maximal marginal relevance, for the profiles that ask for it."""

    trade_off: float = MMR_TRADE_OFF
    pool: int = MMR_POOL
    relative: bool = True
    """Relevance as a share of the pool's best. On raw reciprocal-rank scores, which
    lie near 0.02, the penalty decides alone (LoCoMo recall@10 .641 -> .457)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A named recipe."""

    name: str
    legs: tuple[LegSpec, ...]
    limit: int = 10
    rank_constant: float = RRF_RANK_CONSTANT
    rank_style: RankStyle = RankStyle.ORDINAL
    importance: Importance = Importance()
    decay: Decay | None = None
    diversity: Diversity | None = None
    fold_from: float | None = 0.9
    """The word overlap from which two hits are one; None folds nothing."""

    def __post_init__(self) -> None:
        names = [leg.name for leg in self.legs]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"profile {self.name!r} needs legs, each once, got {names}")
        if not 1 <= self.limit <= MAX_LIMIT:
            raise ValueError(f"limit must be from 1 to {MAX_LIMIT}, got {self.limit}")
        if not self.rank_constant > 0:
            raise ValueError(f"rank_constant must be above 0, got {self.rank_constant}")

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each leg."""
        return {leg.name: leg.weight for leg in self.legs}

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
        )
