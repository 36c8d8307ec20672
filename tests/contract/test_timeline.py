"""What every timeline does, the one in memory and PostgreSQL's."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from serving.domain.budget import Deadline
from serving.domain.items.records import Fact, Segment, TenantName, segment_id
from serving.domain.questions.period import Period
from serving.domain.questions.query import Exclusion, Filter, Scope
from serving.domain.ranking.ranked_list import Candidate
from tests.fixtures.memory_or_postgres import Stored
from tests.support.builders import NOON, days, fact, scope, segment

# So that the tests notice a statement without its tenant.
pytestmark = pytest.mark.without_row_security

OTHER = TenantName("other")


async def latest(stored: Stored, of: Scope, depth: int = 100) -> str:
    found = await stored.timeline.latest(of, depth, Deadline.after(60))
    return " ".join(candidate.item.id for candidate in found)


async def test_the_latest_come_first_and_their_score_is_the_time(stored: Stored) -> None:
    precise = NOON + timedelta(microseconds=1)
    await stored.write(
        segment("noon"),
        segment("later", event_time=precise),
        fact("f", "x", "y", "z"),
        segment("secret", sensitive=True),
    )

    found = await stored.timeline.latest(scope(), 10, Deadline.after(60))

    assert found == [
        Candidate(segment_id("later"), precise.timestamp()),
        Candidate(segment_id("noon"), NOON.timestamp()),
    ]


async def test_equal_times_are_ordered_by_id_within_depth(stored: Stored) -> None:
    await stored.write(
        *[segment(id_) for id_ in ("d", "a", "é", "c", "B")]
        + [segment("last", event_time=NOON + days(0.5))]
    )

    assert await latest(stored, scope()) == "last B a c d é"
    assert await latest(stored, scope(), 3) == "last B a"
    assert await latest(stored, scope(), 0) == ""


async def test_earliest_come_first_when_wanted(stored: Stored) -> None:
    await stored.write(*(segment(name, event_time=NOON + days(n)) for n, name in enumerate("bcad")))

    found = await stored.timeline.latest(
        scope(as_of=NOON + days(2)), 2, Deadline.after(60), earliest_first=True
    )

    assert found == [
        Candidate(segment_id("b"), -NOON.timestamp()),
        Candidate(segment_id("c"), -(NOON + days(1)).timestamp()),
    ]


def about(id_: str, begins: float, ends: float, **fields: Any) -> Segment:
    """A segment whose text speaks of these days, counted from noon."""
    begin, end = NOON + days(begins), NOON + days(ends)
    return segment(id_, mentions_from=begin, mentions_to=end, **fields)


async def test_segments_that_mention_a_period_are_found(stored: Stored) -> None:
    await stored.write(
        about("on", 4, 5, event_time=NOON + days(1)),
        about("across", 3, 4.5, event_time=NOON + days(0.5)),
        about("before", 3, 4),
        about("after", 5, 6),
        about("long", 0, 30),
        about("hidden", 4, 5, sensitive=True),
        about("later", 4, 5, event_time=NOON + days(9)),
        segment("none"),
    )
    await stored.write(about("theirs", 4, 5), tenant=OTHER)

    found = await stored.timeline.mentioning(
        Period(NOON + days(4), NOON + days(5)), scope(as_of=NOON + days(2)), 9, Deadline.after(60)
    )

    assert found == [
        Candidate(segment_id("on"), (NOON + days(1)).timestamp()),
        Candidate(segment_id("across"), (NOON + days(0.5)).timestamp()),
    ]


# ---------------------------------------------------------------- what is important, and what holds


async def test_most_important_come_first_then_the_latest(stored: Stored) -> None:
    await stored.write(
        segment("usual"),
        segment("old", importance=0.9, event_time=NOON - days(9)),
        segment("new", importance=0.9),
        segment("pinned", importance=1.0, event_time=NOON - days(90)),
        segment("later", importance=1.0, event_time=NOON + days(2)),
        segment("secret", importance=1.0, sensitive=True),
        segment("note", importance=1.0, kind="note"),
    )
    turns = scope(filter_=Filter(kinds=("turn",)))

    found = await stored.timeline.important(turns, 0.8, 10, Deadline.after(60))
    fewer = await stored.timeline.important(turns, 0.8, 2, Deadline.after(60))

    assert [candidate.item.id for candidate in found] == ["pinned", "new", "old"]
    assert [candidate.score for candidate in found] == pytest.approx([1.0, 0.9, 0.9])
    assert fewer == found[:2]


def lives_in(place: str, **fields: Any) -> Fact:
    return fact(place.lower(), "Ola", "lives in", place, single_valued=True, **fields)


async def holding(stored: Stored, of: Scope) -> str:
    found = await stored.timeline.holding(of, 100, Deadline.after(60))
    return " ".join(candidate.item.id for candidate in found)


async def test_facts_that_hold_come_latest_first(stored: Stored) -> None:
    await stored.write(
        fact("always", "Ola", "likes", "tea", recorded_at=NOON - days(50)),
        fact("began", "Ola", "works at", "Lotus", valid_from=NOON - days(9)),
        fact("ended", "Ola", "works at", "Ibis", valid_to=NOON - days(9)),
        fact("ends", "Ola", "rents", "a boat", valid_to=NOON + days(9)),
        fact("begins", "Ola", "rents", "a car", valid_from=NOON + days(9)),
        fact("wrong", "Ola", "is", "a pilot", retracted_at=NOON),
        fact("secret", "Ola", "has", "a pin", sensitive=True),
        lives_in("Leeds", valid_from=NOON - days(99)),
        lives_in("York", valid_from=NOON - days(3)),
    )

    assert await holding(stored, scope()) == "ends york began always"
    assert await holding(stored, scope(as_of=NOON - days(4))) == "ends began always leeds"
    assert await holding(stored, scope(as_of=NOON + days(10))) == "begins york began always"
    assert await holding(stored, scope(OTHER)) == ""


async def test_facts_about_entities_are_found_by_either_end(stored: Stored) -> None:
    await stored.write(
        fact("subject", "Ola  B", "likes", "tea"),
        fact("object", "Tom", "knows", "ola b", recorded_at=NOON - days(1)),
        fact("other", "Ola", "likes", "Ola B."),
        fact("ended", "Ola B", "likes", "milk", valid_to=NOON - days(9)),
    )
    await stored.write(fact("theirs", "Ola B", "likes", "tea"), tenant=OTHER)
    search = partial(stored.timeline.holding, scope())

    found = await search(100, Deadline.after(60), entities=("OLA B", "Nobody"))
    first = await search(1, Deadline.after(60), entities=("OLA B",))

    assert [candidate.item.id for candidate in found] == ["subject", "object"]
    assert first == found[:1]


EVIDENCE_FILTERS = [
    (Filter(), "a b both dangling free"),
    (Filter(sessions=("a",)), "a both"),
    (Filter(none_of=Exclusion(sessions=("a",))), "b both dangling free"),
    (Filter(none_of=Exclusion(sessions=("a", "b"))), "dangling free"),
    (Filter(none_of=Exclusion(fact_ids=("free", "b"))), "a both dangling"),
    (Filter(kinds=("turn",), none_of=Exclusion(sessions=("a",))), "b both"),
    (Filter(none_of=Exclusion(filters=(Filter(sessions=("a",)),))), "b both dangling free"),
    (Filter(any_of=(Filter(sessions=("b",)),)), "b both"),
]


async def test_filters_hold_for_the_evidence_of_facts(stored: Stored) -> None:
    def held(id_: str, *evidence: str) -> Fact:
        return fact(id_, "Ola", "likes", id_, evidence=evidence)

    await stored.write(
        *(segment(session, session=session) for session in ("a", "b")),
        *(held("a", "a"), held("b", "b"), held("both", "a", "b")),
        *(held("free"), held("dangling", "never stored")),
    )

    for filter_, passing in EVIDENCE_FILTERS:
        assert await holding(stored, scope(filter_=filter_)) == passing, filter_


async def test_facts_as_known_then_hold(stored: Stored) -> None:
    await stored.write(
        lives_in("Leeds", recorded_at=NOON - days(50)),
        lives_in("York", valid_from=NOON - days(9), recorded_at=NOON - days(1)),
    )

    assert await holding(stored, scope(known_at=NOON - days(2))) == "leeds"
    assert await holding(stored, scope(known_at=NOON)) == "york"


async def test_fact_with_sensitive_evidence_is_hidden(stored: Stored) -> None:
    pin = fact("pin", "Ola", "has the pin", "4711", evidence=("said",))
    await stored.write(segment("said", sensitive=True), pin)

    assert await holding(stored, scope()) == ""
