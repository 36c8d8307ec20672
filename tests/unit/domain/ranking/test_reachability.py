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
from serving.domain.ranking.reachability import faults, notes

LIMIT = 10


def profile(*weights: float, depth: int = 50, limit: int = LIMIT) -> Profile:
    legs = tuple(
        LegSpec(name=name, weight=weight, depth=depth)
        for name, weight in zip("abcdef", weights, strict=False)
    )
    return Profile(name="p", legs=legs, limit=limit, fold_repeats=False)


def last_with(of: Profile, **fields: Any) -> Profile:
    *others, last = of.legs
    return replace(of, legs=(*others, replace(last, **fields)))


def listed(leg: str, names: Iterable[str]) -> RankedList:
    return RankedList(leg, tuple(Candidate(segment_id(n), -place) for place, n in enumerate(names)))


def place_of(item: str, lists: list[RankedList], of: Profile) -> int:
    """The place of an item among what the lists are fused to."""
    fused = fuse(lists, weights=of.weights, rank_constant=of.rank_constant)
    return next(place for place, one in enumerate(fused, 1) if one.item.id == item)


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
    scored = replace(profile(1, 0.01), fusion=FusionMethod.SCORE)

    assert not [*faults(scored), *notes(scored)]


@given(
    drawn=st.lists(st.tuples(st.floats(0.01, 20), st.integers(1, 40)), min_size=2, max_size=4),
    limit=st.integers(1, 20),
)
def test_faults_and_notes_match_the_fusion(drawn: list[tuple[float, int]], limit: int) -> None:
    of = profile(*(weight for weight, _ in drawn), limit=limit)
    legs = [replace(leg, depth=depth) for leg, (_, depth) in zip(of.legs, drawn, strict=True)]
    of = replace(of, legs=tuple(legs))
    agreed = [f"b{place:02}" for place in range(limit)]

    def place(leg: LegSpec, its: list[str], item: str, **of_others: list[str]) -> int:
        """That of an item which this leg or only the others have."""
        lists = [listed(leg.name, its)]
        lists += [
            listed(each.name, of_others.get("all") or names_of(each))
            for each in legs
            if each != leg
        ]
        return place_of(item, lists, of)

    rejected = [(leg, "alone: its weight" in why) for leg, why in faults(of)]
    noted = dict(notes(of))
    for leg in legs:
        # Lists without a common item, with ids that lose every tie against the expected one.
        assert ((leg.name, False) in rejected) == (place(leg, ["A"], "A") > limit)
        full = min(each.depth for each in legs) >= limit
        if full and not is_tie(leg, legs, of):
            assert (leg.name in noted) == (place(leg, ["z"], "z", all=agreed) > limit)
            fills = place(leg, [f"a{each:02}" for each in range(limit)], "z", all=["z"]) > limit
            assert ((leg.name, True) in rejected) == fills


def names_of(leg: LegSpec) -> list[str]:
    return [f"{leg.name}{place}" for place in range(leg.depth)]


def is_tie(leg: LegSpec, legs: list[LegSpec], of: Profile) -> bool:
    others = sum(each.weight for each in legs if each != leg)
    ratio = (of.rank_constant + of.limit) / (of.rank_constant + 1)
    bounds = (others / ratio, others * ratio)
    return any(math.isclose(leg.weight, bound, rel_tol=1e-9) for bound in bounds)
