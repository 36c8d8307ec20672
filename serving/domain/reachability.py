"""Whether each leg of a profile can be heard, worked out from weights and depths alone.

Reciprocal-rank scores span little: with k = 60 the first of a list is worth 1.15 times the
tenth. So a weight a little below the others can silence what one leg alone finds, and one a
little above can silence everybody else, without any error to be seen. A profile is checked for
both before it serves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from serving.domain.ledger import FusionMethod
from serving.domain.profile import LegSpec, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What one leg can bring into an answer of `limit` hits that no other leg found.

    Attributes:
        leg: The leg.
        limit: The number of hits.
        ahead: How many finds of each other leg lie before its best one if no two legs agree.
        reaches: Whether that leaves it a place.
        needs_if_agreeing: The weight above which its best find shows even if all others agree on
            a whole answer; infinite if there is none.
        heard_if_agreeing: Whether its weight is above that.
        fills_from: The weight above which it fills the answer alone; infinite if its list is
            shorter than that.
        crowds_out: Whether its weight is above that.
    """

    leg: str
    limit: int
    ahead: Mapping[str, int]
    reaches: bool
    needs_if_agreeing: float
    heard_if_agreeing: bool
    fills_from: float
    crowds_out: bool

    @property
    def ahead_if_disjoint(self) -> int:
        """All finds that lie before its best one if no two legs agree."""
        return sum(self.ahead.values())


def reaches(profile: Profile) -> list[Reach]:
    """Works out the reach of each leg that has a weight, from what the legs give.

    A hit that only leg j finds, at rank 1, shows for sure if fewer than `limit` others lie
    ahead of w_j / (k + 1); other legs' hits lie at w_i / (k + rank). Where others agree, a hit of
    theirs has the sum.

    Signals are left out, since nobody knows beforehand what they prefer: of n candidates, one of
    weight w sets two apart by up to w / (k + 1) - w / (k + n). So with signals the bounds hold
    for candidates that these rank alike, such as all that were said at one time. Scores that
    are not reciprocal ranks have no such bounds, and then the list is empty.
    """
    if profile.fusion is not FusionMethod.RECIPROCAL_RANK:
        return []
    heard = [leg for leg in profile.legs if leg.weight > 0]
    return [_reach(profile, leg, [other for other in heard if other is not leg]) for leg in heard]


def _reach(profile: Profile, leg: LegSpec, others: Sequence[LegSpec]) -> Reach:
    k, limit = profile.rank_constant, profile.limit
    ahead = {other.name: _ahead(leg, other, k, limit) for other in others}
    agreeing = [other for other in others if other.depth_for(limit) >= limit]
    needed = (k + 1) * sum(other.weight for other in agreeing) / (k + limit)
    can_fill = bool(others) and leg.depth_for(limit) >= limit
    fills_from = (
        (k + limit) * sum(other.weight for other in others) / (k + 1) if can_fill else math.inf
    )
    return Reach(
        leg=leg.name,
        limit=limit,
        ahead=ahead,
        reaches=sum(ahead.values()) < limit,
        needs_if_agreeing=needed,
        heard_if_agreeing=leg.weight > needed or not agreeing,
        fills_from=fills_from,
        crowds_out=leg.weight > fills_from,
    )


def _ahead(leg: LegSpec, other: LegSpec, k: float, limit: int) -> int:
    """How many of the other's list lie before the leg's first: w_i / (k + r) > w_j / (k + 1)."""
    best = leg.weight / (k + 1)
    # The largest rank before the leg's first, by the formula, then to the bit.
    rank = min(other.depth_for(limit), math.ceil(other.weight / best - k))
    while rank > 0 and not other.weight / (k + rank) > best:
        rank -= 1
    return max(rank, 0)


def faults(profile: Profile) -> list[tuple[str, str]]:
    """What keeps a profile from serving: the leg, and why with its numbers.

    Those that drown out others come first, since what they drown out is no fault of its own.
    What a leg declares on purpose (`reorders`, `may_fill`) is no fault.
    """
    crowding, unreachable = [], []
    for reach in reaches(profile):
        leg = profile.leg(reach.leg)
        if reach.crowds_out and not leg.may_fill:
            crowding.append((leg.name, _crowding(leg, reach)))
        if not reach.reaches and not leg.reorders and not leg.reserved:
            unreachable.append((leg.name, _unreachable(profile, leg, reach)))
    return crowding + unreachable


def contradictions(profile: Profile) -> list[tuple[str, str]]:
    """What a profile asks for and cannot get: the field, and why.

    For one question that is no fault: an ablation silences a leg, and a smaller answer has fewer
    places, whatever the profile promises.
    """
    return [found for leg in profile.legs for found in _contradictions(profile, leg)]


def _contradictions(profile: Profile, leg: LegSpec) -> Iterator[tuple[str, str]]:
    reserved, places = f"legs.{leg.name}.reserved", min(profile.limit, leg.depth_for(profile.limit))
    if leg.reserved and not leg.weight:
        yield reserved, "it finds nothing to show there, since its weight is 0"
    elif leg.reserved > places:
        yield reserved, f"is {leg.reserved}, but no more than {places} can be had"
    if leg.weight:
        for other in leg.leans_on:
            if not profile.leg(other).weight:
                yield (
                    f"legs.{leg.name}",
                    f"leans on {other!r}, which has weight 0 and finds nothing",
                )


def notes(profile: Profile) -> list[tuple[str, str]]:
    """What is worth knowing of a profile's legs, though it serves."""
    return [
        (
            reach.leg,
            f"while the others agree on {reach.limit} hits, nothing that it alone finds can show: "
            f"its weight is {profile.leg(reach.leg).weight:g}, "
            f"and would have to be above {reach.needs_if_agreeing:.2f}",
        )
        for reach in reaches(profile)
        if not reach.heard_if_agreeing and not profile.leg(reach.leg).reserved
    ]


def _unreachable(profile: Profile, leg: LegSpec, reach: Reach) -> str:
    best = leg.weight / (profile.rank_constant + 1)
    return (
        f"nothing that it alone finds can show: its best find is worth {best:.5f}, and "
        f"{reach.ahead_if_disjoint} finds of other legs are worth more ({_by_leg(reach.ahead)}) "
        f"where the answer has {reach.limit} places. Raise its weight, shorten the other lists, "
        "give it `reserved` places, or declare `reorders: true`"
    )


def _by_leg(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} of {leg}" for leg, count in counts.items() if count)


def _crowding(leg: LegSpec, reach: Reach) -> str:
    return (
        f"it can fill the answer alone: its weight is {leg.weight:g}, and from "
        f"{reach.fills_from:.2f} on its place {reach.limit} beats the best on which all others "
        "agree. Lower its weight, shorten its list, or declare `may_fill: true`"
    )
