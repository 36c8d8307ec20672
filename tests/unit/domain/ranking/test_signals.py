from __future__ import annotations

from serving.domain.questions.period import Period
from serving.domain.ranking.ranked_list import RankStyle
from serving.domain.ranking.signals import SIGNALS, Known, Named, Traits, ranked_by
from tests.support.builders import NOON, days, fact, ids, segment


def test_the_latest_segment_is_the_most_recent() -> None:
    known = [
        Known(Traits.of(segment("old", event_time=NOON - days(3)))),
        Known(Traits.of(segment("new"))),
        Known(Traits.of(fact("since", "Mel", "lives in", "Rome", valid_from=NOON - days(1)))),
    ]

    found = ranked_by("recency", known)

    assert [candidate.item.id for candidate in found.candidates] == ["new", "since", "old"]


def test_items_shown_equally_often_share_a_rank() -> None:
    known = [
        Known(Traits.of(segment(name)), shown=shown)
        for name, shown in (("a", 1), ("b", 7), ("c", 1))
    ]

    found = ranked_by("access", known)

    assert [candidate.item for candidate in found.candidates] == ids("b", "a", "c")
    assert found.ranks(RankStyle.MEAN) == [1, 2.5, 2.5]


def test_every_signal_ranks_all_candidates() -> None:
    named = Named(frozenset("abc"), (Period(NOON - days(9), NOON + days(9)),))
    known = [Known(Traits.of(segment(name, speaker=name)), named) for name in "abc"]

    for signal in SIGNALS:
        assert len(ranked_by(signal, known).candidates) == 3


def test_only_speakers_that_the_question_names_are_ranked() -> None:
    named = Named.of("What did Maria's sister tell JÓN?")
    speakers = {"a": "Maria Lopez", "b": "Jón", "c": "Otto", "d": ""}
    known = [
        Known(Traits.of(segment(name, speaker=speaker)), named)
        for name, speaker in speakers.items()
    ]

    found = ranked_by(
        "speaker", [*known, Known(Traits.of(fact("f", "Maria", "likes", "tea")), named)]
    )

    assert [candidate.item for candidate in found.candidates] == ids("a", "b")
    assert found.ranks(RankStyle.MEAN) == [1.5, 1.5]


def test_only_items_near_a_named_time_are_ranked() -> None:
    named = Named(periods=(Period(NOON, NOON + days(1)), Period(NOON + days(60), NOON + days(90))))
    since = {"within": 0.5, "after": 4, "before": -3, "late": 4.1, "early": -3.1, "second": 92}
    known = [
        Known(Traits.of(segment(name, event_time=NOON + days(at))), named)
        for name, at in since.items()
    ]
    became_true = fact("true", "Mel", "lives in", "Rome", valid_from=NOON)

    found = ranked_by("time", [*known, Known(Traits.of(became_true), named)])

    assert {candidate.item.id for candidate in found.candidates} == {
        *("within", "after", "before", "second", "true")
    }
    assert set(found.ranks(RankStyle.MEAN)) == {3}
