"""Ranks of equal scores, and where a list is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from serving.domain.items.records import segment_id
from serving.domain.ranking.ranked_list import (
    Candidate,
    RankedList,
    RankStyle,
    best_first,
    depth_to_read,
    within_depth,
)

SCORES = st.lists(st.integers(0, 4).map(float), max_size=40)
DEPTHS = st.integers(1, 20)


def candidates(scores: list[float], names: list[int] | None = None) -> list[Candidate]:
    """Best first; the names decide the order of equal scores."""
    return best_first(
        Candidate(segment_id(f"{name:03}"), score, path=str(place))
        for place, (score, name) in enumerate(zip(scores, names or range(len(scores)), strict=True))
    )


def cut(read: list[Candidate], depth: int) -> set[str]:
    """What a leg gives when its store returns only as many as are to be read."""
    read = read[: depth_to_read(depth, RankStyle.MEAN)]
    return {each.path for each in within_depth(read, depth, RankStyle.MEAN)}


@given(SCORES, DEPTHS, st.data())
def test_items_within_depth_do_not_depend_on_ids(
    scores: list[float], depth: int, data: st.DataObject
) -> None:
    names = data.draw(st.permutations(range(len(scores))))

    assert cut(candidates(scores), depth) == cut(candidates(scores, names), depth)


@given(SCORES, DEPTHS)
def test_reading_more_than_that_changes_nothing(scores: list[float], depth: int) -> None:
    everything = candidates(scores)

    kept = {each.path for each in within_depth(everything, depth, RankStyle.MEAN)}
    assert cut(everything, depth) == kept


@given(SCORES)
def test_mean_ranks_share_what_ordinal_ranks_give(scores: list[float]) -> None:
    ranked = RankedList("lexical", tuple(candidates(scores)))
    shared = ranked.ranks(RankStyle.MEAN)

    assert sum(shared) == sum(ranked.ranks(RankStyle.ORDINAL))
    by_score = dict(zip([each.score for each in ranked.candidates], shared, strict=True))
    assert shared == [by_score[each.score] for each in ranked.candidates]


def test_ranking_style_decides_the_ranks_of_ties() -> None:
    ranked = RankedList("lexical", tuple(candidates([9.0, 5.0, 5.0, 1.0])))

    assert ranked.ranks(RankStyle.ORDINAL) == [1, 2, 3, 4]
    assert ranked.ranks(RankStyle.DENSE) == [1, 2, 2, 3]
    assert ranked.ranks(RankStyle.MEAN) == [1, 2.5, 2.5, 4]
    assert len(within_depth(ranked.candidates, 2, RankStyle.MEAN)) == 1
    assert len(within_depth(ranked.candidates, 2, RankStyle.ORDINAL)) == 2
