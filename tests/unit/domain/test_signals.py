from __future__ import annotations

from serving.domain.ranking import RankStyle
from serving.domain.signals import SIGNALS, Known, ranked_by
from tests.builders import NOON, days, fact, ids, segment


def test_what_was_said_last_is_the_most_recent() -> None:
    known = [
        Known(segment("old", event_time=NOON - days(3)), 0),
        Known(segment("new"), 0),
        Known(fact("since", "Mel", "lives in", "Rome", valid_from=NOON - days(1)), 0),
    ]

    found = ranked_by("recency", known)

    assert [candidate.item.id for candidate in found.candidates] == ["new", "since", "old"]


def test_what_was_shown_as_often_shares_a_dense_rank() -> None:
    known = [Known(segment(name), shown) for name, shown in (("a", 1), ("b", 7), ("c", 1))]

    found = ranked_by("access", known)

    assert [candidate.item for candidate in found.candidates] == ids("b", "a", "c")
    assert found.ranks(RankStyle.DENSE) == [1, 2, 2]


def test_every_signal_ranks_all_candidates() -> None:
    known = [Known(segment(name), 0) for name in "abc"]

    for signal in SIGNALS:
        assert len(ranked_by(signal, known).candidates) == 3
