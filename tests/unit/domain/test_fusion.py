from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.fusion import Fused, fuse
from serving.domain.ledger import FusionMethod, Ledger
from serving.domain.ranking import Candidate, RankedList, RankStyle
from serving.domain.records import segment_id
from tests.builders import ranked

LEGS = ("lexical", "dense", "facts", "graph")


def names(fused: list[Fused]) -> list[str]:
    return [one.item.id for one in fused]


@st.composite
def ranked_lists(draw: st.DrawFn) -> list[RankedList]:
    lists = []
    for leg in LEGS:
        ids = draw(st.lists(st.sampled_from("abcdefghij"), unique=True))
        lists.append(ranked(leg, " ".join(ids)))
    return lists


weights = st.fixed_dictionaries({leg: st.floats(0, 1000) for leg in LEGS})


def test_what_two_legs_find_beats_what_one_finds() -> None:
    fused = fuse(
        [ranked("dense", "a b"), ranked("lexical", "c b")], weights={"dense": 1, "lexical": 1}
    )

    assert names(fused) == ["b", "a", "c"]


def test_score_is_the_sum_of_weight_over_k_plus_rank() -> None:
    fused = fuse(
        [ranked("dense", "a b"), ranked("lexical", "b")],
        weights={"dense": 2.0, "lexical": 1.0},
        rank_constant=60,
    )

    assert fused[0].score == pytest.approx(2 / 62 + 1 / 61, abs=1e-12)


@given(lists=ranked_lists(), weights=weights, data=st.data())
def test_order_of_the_legs_does_not_matter(
    lists: list[RankedList], weights: dict[str, float], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(lists))

    plain = [(one.item, one.score) for one in fuse(lists, weights=weights)]
    other = [(one.item, one.score) for one in fuse(shuffled, weights=weights)]
    assert plain == other


def test_a_leg_of_weight_zero_brings_nothing() -> None:
    fused = fuse([ranked("dense", "a"), ranked("graph", "b")], weights={"dense": 1, "graph": 0})

    assert names(fused) == ["a"]


def test_equal_scores_are_ordered_by_id() -> None:
    fused = fuse([ranked("dense", "b"), ranked("lexical", "a")], weights={"dense": 1, "lexical": 1})

    assert names(fused) == ["a", "b"]


def test_dense_ranks_are_shared_by_equal_scores() -> None:
    scores = {"a": 0.9, "b": 0.9, "c": 0.5}
    tied = RankedList(
        "dense", tuple(Candidate(segment_id(id_), score) for id_, score in scores.items())
    )

    assert tied.ranks(RankStyle.ORDINAL) == [1, 2, 3]
    assert tied.ranks(RankStyle.DENSE) == [1, 1, 2]


def scored(leg: str, **scores: float) -> RankedList:
    return RankedList(leg, tuple(Candidate(segment_id(id_), of) for id_, of in scores.items()))


def test_a_convex_combination_goes_from_the_theoretical_least_to_the_best_found() -> None:
    fused = fuse(
        [scored("dense", a=0.8, b=0.2), scored("lexical", b=12.0, c=3.0)],
        weights={"dense": 0.6, "lexical": 0.4},
        method=FusionMethod.CONVEX,
        least_scores={"dense": -1.0},
    )

    assert {one.item.id: one.score for one in fused} == pytest.approx(
        {"a": 0.6, "b": 0.6 * 1.2 / 1.8 + 0.4, "c": 0.4 * 3 / 12}
    )
    assert names(fused) == ["b", "a", "c"]


def test_by_score_a_single_leg_keeps_its_own() -> None:
    fused = fuse([scored("dense", a=0.8, b=-0.2)], weights={"dense": 1}, method=FusionMethod.SCORE)

    assert [(one.item.id, one.score) for one in fused] == [("a", 0.8), ("b", -0.2)]


@given(lists=ranked_lists(), weights=weights, method=st.sampled_from(FusionMethod))
def test_by_every_method_the_ledger_adds_up_to_the_fused_score(
    lists: list[RankedList], weights: dict[str, float], method: FusionMethod
) -> None:
    for one in fuse(lists, weights=weights, method=method, least_scores={"dense": -1.0}):
        ledger = Ledger(rank_constant=60, method=method, leg_terms=one.terms)
        assert math.isclose(ledger.score, one.score, rel_tol=1e-12, abs_tol=1e-9)


def test_a_rank_constant_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="rank_constant"):
        fuse([], weights={}, rank_constant=0)


def test_a_list_that_names_an_item_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        ranked("dense", "a a")


def test_a_list_that_is_not_ordered_by_score_is_refused() -> None:
    with pytest.raises(ValueError, match="falling"):
        RankedList("dense", (Candidate(segment_id("a"), 0.1), Candidate(segment_id("b"), 0.2)))
