"""Whether each leg of a profile can affect the answer, computed from weights and depths alone.

Reciprocal-rank scores have a small range: with k = 60, rank 1 is worth 1.15 times rank 10. A
weight slightly below the others can hide everything that only this leg finds; a weight slightly
above them can hide all other legs. Neither causes an error, so every profile is checked before
it is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from serving.domain.ranking.ledger import FusionMethod
from serving.domain.ranking.profile import LegSpec, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What one leg can add to an answer that no other leg found.

    Attributes:
        ahead: For each other leg, how many of its candidates rank before this leg's best one if
            the lists are disjoint.
        needed: The weight above which the best candidate gets a place even if all other legs agree
            on a whole answer; 0 if none of them can have one.
        fills_from: The weight above which the leg fills the answer alone; infinite if its list is
            shorter than the answer.
    """

    leg: LegSpec
    ahead: Mapping[str, int]
    needed: float
    fills_from: float


def reaches(profile: Profile) -> list[Reach]:
    """Computes the reach of each leg with a weight above 0.

    A hit that only leg j finds, at rank 1, is always in the answer if fewer than `limit` other
    candidates score above w_j / (k + 1). Candidates of another leg score w_i / (k + rank); where
    several legs agree on a candidate, it has the sum.

    Signals are ignored, because their order is not known in advance: among n candidates, a
    signal of weight w separates two by up to w / (k + 1) - w / (k + n). With signals, the bounds
    therefore hold only between candidates that the signals rank equally. Other fusion methods
    have no such bounds, and the list is empty.
    """
    if profile.fusion is not FusionMethod.RECIPROCAL_RANK:
        return []
    active = [leg for leg in profile.legs if leg.weight > 0]
    return [_reach(profile, leg, [other for other in active if other is not leg]) for leg in active]


def _reach(profile: Profile, leg: LegSpec, others: Sequence[LegSpec]) -> Reach:
    limit = profile.limit
    last_to_first = (profile.rank_constant + limit) / (profile.rank_constant + 1)
    agreeing = sum(other.weight for other in others if other.depth_for(limit) >= limit)
    can_fill = others and leg.depth_for(limit) >= limit
    return Reach(
        leg=leg,
        ahead={other.name: _ahead(leg, other, profile.rank_constant, limit) for other in others},
        needed=agreeing / last_to_first,
        fills_from=last_to_first * sum(each.weight for each in others) if can_fill else math.inf,
    )


def _ahead(leg: LegSpec, other: LegSpec, k: float, limit: int) -> int:
    """The number of ranks r of the other leg with w_i / (k + r) > w_j / (k + 1)."""
    best = leg.weight / (k + 1)
    # The formula may be off by one in floating point; the loop corrects it.
    rank = min(other.depth_for(limit), math.ceil(other.weight / best - k))
    while rank > 0 and not other.weight / (k + rank) > best:
        rank -= 1
    return max(rank, 0)


def faults(profile: Profile) -> list[tuple[str, str]]:
    """The reasons to reject a profile, as (leg, explanation with numbers).

    Legs that crowd out others come first, because they are the cause when another leg is
    unreachable. A leg that declares the effect (`reorders`, `may_fill`) is accepted.
    """
    found = reaches(profile)
    crowding = [
        (
            leg.name,
            f"this leg can fill the answer alone: its weight is {leg.weight:g}, and above "
            f"{reach.fills_from:.2f} its rank {profile.limit} scores more than the best hit of all "
            "others together. Lower its weight, shorten its list, or declare `may_fill: true`",
        )
        for reach in found
        if (leg := reach.leg).weight > reach.fills_from and not leg.may_fill
    ]
    unreachable = [
        (leg.name, _unreachable(profile, reach))
        for reach in found
        if sum(reach.ahead.values()) >= profile.limit
        and not ((leg := reach.leg).reorders or leg.reserved)
    ]
    return crowding + unreachable


def _unreachable(profile: Profile, reach: Reach) -> str:
    best = reach.leg.weight / (profile.rank_constant + 1)
    ahead = ", ".join(f"{count} of {leg}" for leg, count in reach.ahead.items() if count)
    return (
        f"no hit of this leg alone can show: its best candidate scores {best:.5f}, and "
        f"{sum(reach.ahead.values())} candidates of other legs score more ({ahead}), "
        f"but the answer has {profile.limit} places. Raise its weight, shorten the other lists, "
        "give it `reserved` places, or declare `reorders: true`"
    )


def contradictions(profile: Profile) -> list[tuple[str, str]]:
    """Options of a profile that cannot take effect, as (field, explanation).

    Overrides of a single request are not checked: an ablation disables a leg on purpose, and a
    smaller answer has fewer places.
    """
    return [found for leg in profile.legs for found in _contradictions(profile, leg)]


def _contradictions(profile: Profile, leg: LegSpec) -> Iterator[tuple[str, str]]:
    reserved, places = f"legs.{leg.name}.reserved", min(profile.limit, leg.depth_for(profile.limit))
    if leg.reserved and not leg.weight:
        yield reserved, "the leg has weight 0 and finds nothing"
    elif leg.reserved > places:
        yield reserved, f"is {leg.reserved}, but at most {places} are available"
    if leg.weight:
        for other in leg.leans_on:
            if not profile.leg(other).weight:
                why = f"depends on {other!r}, which has weight 0 and finds nothing"
                yield f"legs.{leg.name}", why


def notes(profile: Profile) -> list[tuple[str, str]]:
    """Notes on the legs of an accepted profile, as (leg, note)."""
    return [
        (
            leg.name,
            f"while the other legs agree on {profile.limit} hits, no hit of this leg alone can "
            f"show: its weight is {leg.weight:g}, and would have to be above {reach.needed:.2f}",
        )
        for reach in reaches(profile)
        if (leg := reach.leg).weight <= reach.needed and not leg.reserved
    ]
