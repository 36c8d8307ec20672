from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.items.records import segment_id
from serving.domain.ranking.fusion import fuse
from serving.domain.ranking.ledger import FusionMethod
from serving.domain.ranking.profile import LegSpec, Profile
from serving.domain.ranking.ranked_list import Candidate, RankedList
from serving.domain.ranking.reachability import Reach, faults, notes, reaches

LIMIT = 10


def profile(*weights: float, depth: int = 50, limit: int = LIMIT) -> Profile:
    """Legs a, b, c ... with these weights."""
    legs = tuple(
        LegSpec(name=name, weight=weight, depth=depth)
        for name, weight in zip("abcdef", weights, strict=False)
    )
    return Profile(name="p", legs=legs, limit=limit, fold_repeats=False)


def last_with(of: Profile, **fields: Any) -> Profile:
    """The profile with changes of its last leg."""
    *others, last = of.legs
    return replace(of, legs=(*others, replace(last, **fields)))


def listed(leg: str, names: Iterable[str]) -> RankedList:
    return RankedList(leg, tuple(Candidate(segment_id(n), -place) for place, n in enumerate(names)))


def place_of(item: str, lists: list[RankedList], of: Profile) -> int:
    """The place of an item among what the lists are fused to."""
    fused = fuse(lists, weights=of.weights, rank_constant=of.rank_constant)
    return next(place for place, one in enumerate(fused, 1) if one.item.id == item)


def reach(of: Profile, leg: str) -> Reach:
    return next(each for each in reaches(of) if each.leg.name == leg)


def test_against_two_others_the_bounds_are_those_of_the_formula() -> None:
    of_c = reach(profile(1, 1, 1), "c")

    assert of_c.needed == pytest.approx(1.74, abs=0.005)
    assert of_c.fills_from == pytest.approx(2.30, abs=0.006)


@pytest.mark.parametrize(("weight", "reaches_"), [(61 / 65 + 1e-9, True), (61 / 65 - 1e-9, False)])
def test_disjoint_legs_leave_a_place_from_their_last_ratio(weight: float, reaches_: bool) -> None:
    # (k + 1) / (k + ceil(K / m)) with m = 2 others.
    assert ("c" not in dict(faults(profile(1, 1, weight)))) is reaches_


def test_fault_of_unreachable_leg_has_its_numbers() -> None:
    [(leg, why)] = faults(profile(1, 1, 0.35))

    assert leg == "c"
    assert "0.00574" in why
    assert "100 candidates of other legs" in why


def test_leg_with_reorders_or_reserved_places_is_accepted() -> None:
    silent = profile(1, 1, 0.35)

    assert not faults(last_with(silent, reorders=True))
    assert not faults(last_with(silent, reserved=1))


def test_leg_filling_the_answer_alone_must_declare_it() -> None:
    loud = profile(0.95, 1, 2.4)
    [(leg, why)] = [fault for fault in faults(loud) if "alone: its weight" in fault[1]]

    assert leg == "c"
    assert "above 2.24" in why
    assert not [fault for fault in faults(last_with(loud, may_fill=True)) if fault[0] == "c"]


def test_agreement_of_the_others_is_noted_with_the_weight_needed() -> None:
    assert ("c", "1.74") in [(leg, note[-4:]) for leg, note in notes(profile(1, 1, 1))]
    assert not [leg for leg, _ in notes(profile(1, 1, 1.75)) if leg == "c"]


def test_a_single_leg_crowds_out_no_other() -> None:
    assert not faults(profile(1))
    assert not notes(profile(1))


def test_fusion_by_score_has_no_rank_bounds() -> None:
    assert not reaches(replace(profile(1, 0.01), fusion=FusionMethod.SCORE))


several = st.lists(st.floats(0.1, 5), min_size=2, max_size=4)
limits = st.integers(1, 20)


@given(
    drawn=st.lists(st.tuples(st.floats(0.01, 20), st.integers(1, 40)), min_size=2, max_size=4),
    limit=limits,
)
def test_the_bound_for_disjoint_lists_matches_fusion(
    drawn: list[tuple[float, int]], limit: int
) -> None:
    of = profile(*(weight for weight, _ in drawn), limit=limit)
    legs = [replace(leg, depth=depth) for leg, (_, depth) in zip(of.legs, drawn, strict=True)]
    of = replace(of, legs=tuple(legs))

    for each in reaches(of):
        # Lists without a common item, with ids that lose every tie against the expected one.
        lists = [
            listed(leg.name, ["A"] if leg.name == each.leg.name else names_of(leg)) for leg in legs
        ]
        place = place_of("A", lists, of)
        assert sum(each.ahead.values()) == place - 1


def names_of(leg: LegSpec) -> list[str]:
    return [f"{leg.name}{place}" for place in range(leg.depth)]


@given(weights=several, limit=limits)
def test_the_bound_for_agreeing_lists_matches_fusion(weights: list[float], limit: int) -> None:
    of = profile(*weights, depth=30, limit=limit)
    agreed = [f"b{place:02}" for place in range(limit)]

    for each in reaches(of):
        if math.isclose(each.leg.weight, each.needed, rel_tol=1e-9):
            continue
        lists = [
            listed(leg.name, ["z"] if leg.name == each.leg.name else agreed) for leg in of.legs
        ]
        assert (each.leg.weight > each.needed) == (place_of("z", lists, of) <= limit)


@given(weights=several, limit=limits)
def test_crowding_leg_leaves_no_place_for_others(weights: list[float], limit: int) -> None:
    of = profile(*weights, depth=30, limit=limit)

    for each in reaches(of):
        if math.isclose(each.leg.weight, each.fills_from, rel_tol=1e-9):
            continue
        alone = [f"a{place:02}" for place in range(limit)]
        lists = [listed(leg.name, alone if leg.name == each.leg.name else ["z"]) for leg in of.legs]
        assert (each.leg.weight > each.fills_from) == (place_of("z", lists, of) > limit)
