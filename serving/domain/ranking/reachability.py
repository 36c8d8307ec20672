"""Whether each leg of a profile can affect the answer, computed from weights and depths alone.

Reciprocal-rank scores have a small range: with k = 60, rank 1 is worth 1.15 times rank 10. A
weight slightly below the others can hide everything that only this leg finds; a weight slightly
above them can hide all other legs. Neither causes an error, so every profile is checked before
it is used.
"""

from __future__ import annotations

from collections.abc import Iterator

from serving.domain.ranking.ledger import FusionMethod
from serving.domain.ranking.profile import LegSpec, Profile


def faults(profile: Profile) -> list[tuple[str, str]]:
    """The reasons to reject a profile, as (leg, explanation with numbers).

    Legs that crowd out others come first, because they are the cause when another leg is
    unreachable. A leg that declares the effect (`reorders`, `may_fill`) is accepted.

    Candidates of a leg score w / (k + rank); where several legs agree on a candidate, it has the
    sum. Signals are ignored, because their order is not known in advance: among n candidates, a
    signal of weight w separates two by up to w / (k + 1) - w / (k + n). With signals, the bounds
    therefore hold only between candidates that the signals rank equally.
    """
    crowding, unreachable = [], []
    limit, last_to_first = profile.limit, _last_to_first(profile)
    for leg, others in _with_others(profile):
        fills_from = last_to_first * sum(other.weight for other in others)
        can_fill = others and leg.depth_for(limit) >= limit and not leg.may_fill
        if can_fill and leg.weight > fills_from:
            why = (
                f"this leg can fill the answer alone: its weight is {leg.weight:g}, and above "
                f"{fills_from:.2f} its rank {limit} scores more than the best hit of all others "
                "together. Lower its weight, shorten its list, or declare `may_fill: true`"
            )
            crowding.append((leg.name, why))
        best = leg.weight / (profile.rank_constant + 1)
        ahead = {other.name: _above(best, other, profile) for other in others}
        if sum(ahead.values()) >= limit and not (leg.reorders or leg.reserved):
            of_legs = ", ".join(f"{count} of {name}" for name, count in ahead.items() if count)
            why = (
                f"no hit of this leg alone can show: its best candidate scores {best:.5f}, and "
                f"{sum(ahead.values())} candidates of other legs score more ({of_legs}), "
                f"but the answer has {limit} places. Raise its weight, shorten the other lists, "
                "give it `reserved` places, or declare `reorders: true`"
            )
            unreachable.append((leg.name, why))
    return crowding + unreachable


def notes(profile: Profile) -> list[tuple[str, str]]:
    """Notes on the legs of an accepted profile, as (leg, note)."""
    found = []
    for leg, others in _with_others(profile):
        agreeing = [each for each in others if each.depth_for(profile.limit) >= profile.limit]
        needed = sum(other.weight for other in agreeing) / _last_to_first(profile)
        if leg.weight <= needed and not leg.reserved:
            note = (
                f"while the other legs agree on {profile.limit} hits, no hit of this leg alone can "
                f"show: its weight is {leg.weight:g}, and would have to be above {needed:.2f}"
            )
            found.append((leg.name, note))
    return found


def _with_others(profile: Profile) -> Iterator[tuple[LegSpec, list[LegSpec]]]:
    """Each leg with a weight above 0; none of a fusion without ranks, which has no such bounds."""
    if profile.fusion is FusionMethod.RECIPROCAL_RANK:
        active = [leg for leg in profile.legs if leg.weight > 0]
        for leg in active:
            yield leg, [other for other in active if other is not leg]


def _last_to_first(profile: Profile) -> float:
    """The score of the first rank over that of the last one in the answer."""
    return (profile.rank_constant + profile.limit) / (profile.rank_constant + 1)


def _above(score: float, leg: LegSpec, profile: Profile) -> int:
    """The number of candidates of a leg with a higher score."""
    ranks = range(1, leg.depth_for(profile.limit) + 1)
    return sum(leg.weight / (profile.rank_constant + rank) > score for rank in ranks)


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
