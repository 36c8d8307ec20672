from __future__ import annotations

from serving.domain.period import Period
from serving.domain.signals import SIGNALS, Known, Named, ranked_by
from tests.builders import NOON, days, fact, ids, segment


def test_what_was_said_last_is_the_most_recent() -> None:
    known = [
        Known(segment("old", event_time=NOON - days(3))),
        Known(segment("new")),
        Known(fact("since", "Mel", "lives in", "Rome", valid_from=NOON - days(1))),
    ]

    found = ranked_by("recency", known)

    assert [candidate.item.id for candidate in found.candidates] == ["new", "since", "old"]


def test_what_was_shown_as_often_shares_a_rank() -> None:
    known = [Known(segment(name), shown=shown) for name, shown in (("a", 1), ("b", 7), ("c", 1))]

    found = ranked_by("access", known)

    assert [candidate.item for candidate in found.candidates] == ids("b", "a", "c")
    assert found.ranks() == [1, 2, 2]


def test_every_signal_ranks_all_candidates() -> None:
    named = Named(frozenset("abc"), (Period(NOON - days(9), NOON + days(9)),))
    known = [Known(segment(name, speaker=name), named) for name in "abc"]

    for signal in SIGNALS:
        assert len(ranked_by(signal, known).candidates) == 3


def test_only_who_is_named_in_the_question_has_a_place_as_its_speaker() -> None:
    named = Named.of("What did Maria's sister tell JÓN?")
    speakers = {"a": "Maria Lopez", "b": "Jón", "c": "Otto", "d": ""}
    known = [Known(segment(name, speaker=speaker), named) for name, speaker in speakers.items()]

    found = ranked_by("speaker", [*known, Known(fact("f", "Maria", "likes", "tea"), named)])

    assert [candidate.item for candidate in found.candidates] == ids("a", "b")
    assert found.ranks() == [1, 1]


def test_only_what_was_said_around_a_time_that_the_question_names_has_a_place_by_it() -> None:
    named = Named(periods=(Period(NOON, NOON + days(1)), Period(NOON + days(60), NOON + days(90))))
    since = {"within": 0.5, "after": 4, "before": -3, "late": 4.1, "early": -3.1, "second": 92}
    known = [Known(segment(name, event_time=NOON + days(at)), named) for name, at in since.items()]
    became_true = fact("true", "Mel", "lives in", "Rome", valid_from=NOON)

    found = ranked_by("time", [*known, Known(became_true, named)])

    assert {candidate.item.id for candidate in found.candidates} == {
        *("within", "after", "before", "second", "true")
    }
    assert set(found.ranks()) == {1}
