from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.items.records import segment_id
from serving.domain.ranking.fusion import Fused, fuse
from serving.domain.ranking.ledger import FusionMethod, Ledger
from serving.domain.ranking.ranked_list import Candidate, RankedList
from tests.support.builders import ranked

LEGS = ("lexical", "dense", "facts", "graph")


def names(fused: list[Fused]) -> list[str]:
    return [one.item.id for one in fused]


@st.composite
def ranked_lists(draw: st.DrawFn) -> list[RankedList]:
    ids = st.lists(st.sampled_from("abcdefghij"), unique=True).map(" ".join)
    return [ranked(leg, draw(ids)) for leg in LEGS]


weights = st.fixed_dictionaries({leg: st.floats(0, 1000) for leg in LEGS})


def fused(*lists: RankedList, **weights: float) -> list[Fused]:
    """The lists fused with these weights, or of the weight 1."""
    return fuse(lists, weights=weights or {each.leg: 1 for each in lists}, rank_constant=60)


def test_score_sums_weight_over_k_plus_rank() -> None:
    found = fused(ranked("dense", "a b"), ranked("lexical", "c b"), dense=2.0, lexical=1.0)

    assert names(found) == ["b", "a", "c"]
    assert found[0].score == pytest.approx(2 / 62 + 1 / 62, abs=1e-12)


@given(lists=ranked_lists(), weights=weights, data=st.data())
def test_order_of_the_legs_does_not_matter(
    lists: list[RankedList], weights: dict[str, float], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(lists))

    plain = [(one.item, one.score) for one in fuse(lists, weights=weights, rank_constant=60)]
    other = [(one.item, one.score) for one in fuse(shuffled, weights=weights, rank_constant=60)]
    assert plain == other


def test_a_leg_of_weight_zero_adds_nothing() -> None:
    assert names(fused(ranked("dense", "a"), ranked("graph", "b"), dense=1, graph=0)) == ["a"]


def test_equal_scores_are_ordered_by_id() -> None:
    assert names(fused(ranked("dense", "b"), ranked("lexical", "a"))) == ["a", "b"]


def test_leg_with_equal_scores_changes_no_order() -> None:
    mentions = scored("graph", **dict.fromkeys("abcdefghij", 0.3))

    found = fused(ranked("lexical", "j i"), mentions)

    assert names(found)[:2] == ["j", "i"]
    assert len({one.score for one in found[2:]}) == 1


def scored(leg: str, **scores: float) -> RankedList:
    return RankedList(leg, tuple(Candidate(segment_id(id_), of) for id_, of in scores.items()))


def test_convex_combination_scales_from_theoretical_minimum_to_best() -> None:
    found = fuse(
        [scored("dense", a=0.8, b=0.2), scored("lexical", b=12.0, c=3.0)],
        weights={"dense": 0.6, "lexical": 0.4},
        method=FusionMethod.CONVEX,
        least_scores={"dense": -1.0},
        rank_constant=60,
    )

    assert {one.item.id: one.score for one in found} == pytest.approx(
        {"a": 0.6, "b": 0.6 * 1.2 / 1.8 + 0.4, "c": 0.4 * 3 / 12}
    )
    assert names(found) == ["b", "a", "c"]


def test_by_score_a_single_leg_keeps_its_own() -> None:
    own = scored("dense", a=0.8, b=-0.2)

    found = fuse([own], weights={"dense": 1}, method=FusionMethod.SCORE, rank_constant=60)

    assert [(one.item.id, one.score) for one in found] == [("a", 0.8), ("b", -0.2)]


@given(lists=ranked_lists(), weights=weights, method=st.sampled_from(FusionMethod))
def test_ledger_adds_up_to_every_fused_score(
    lists: list[RankedList], weights: dict[str, float], method: FusionMethod
) -> None:
    for one in fuse(
        lists, weights=weights, method=method, least_scores={"dense": -1.0}, rank_constant=60
    ):
        ledger = Ledger(rank_constant=60, method=method, leg_terms=one.terms)
        assert math.isclose(ledger.score, one.score, rel_tol=1e-12, abs_tol=1e-9)


def test_a_rank_constant_of_zero_is_rejected() -> None:
    with pytest.raises(ValueError, match="rank_constant"):
        fuse([], weights={}, rank_constant=0)


def test_a_list_with_an_item_twice_is_rejected() -> None:
    with pytest.raises(ValueError, match="twice"):
        ranked("dense", "a a")


def test_list_not_ordered_by_score_is_rejected() -> None:
    with pytest.raises(ValueError, match="descending"):
        scored("dense", a=0.1, b=0.2)
