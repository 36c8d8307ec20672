from __future__ import annotations

from serving.domain.ranking.comparison import RankChange, compare
from tests.support.builders import ids


def test_item_has_its_rank_in_both_rankings() -> None:
    a, b, c = ids("a", "b", "c")

    comparison = compare([a, b], [c, a])

    assert comparison.changes == (
        RankChange(a, 1, 2),
        RankChange(b, 2, None),
        RankChange(c, None, 1),
    )


def test_overlap_is_the_shared_part_of_all_items() -> None:
    assert compare(ids("a", "b"), ids("b", "c")).overlap == 1 / 3
    assert compare(ids("a", "b"), ids("b", "a")).overlap == 1.0
    assert compare([], []).overlap == 1.0
