from __future__ import annotations

from serving.domain.comparison import RankChange, compare
from tests.builders import ids


def test_both_orders_are_named_with_the_places_in_each() -> None:
    a, b, c = ids("a", "b", "c")

    comparison = compare([a, b], [c, a])

    assert comparison.changes == (
        RankChange(a, 1, 2),
        RankChange(b, 2, None),
        RankChange(c, None, 1),
    )


def test_overlap_is_what_is_shared_of_all_that_either_has() -> None:
    assert compare(ids("a", "b"), ids("b", "c")).overlap == 1 / 3
    assert compare(ids("a", "b"), ids("b", "a")).overlap == 1.0
    assert compare([], []).overlap == 1.0
