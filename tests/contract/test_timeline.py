"""What every timeline does, the one in memory and PostgreSQL's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from serving.domain.budget import Deadline
from serving.domain.items.records import Fact, Segment, TenantName, segment_id
from serving.domain.questions.period import Period
from serving.domain.questions.query import Exclusion, Filter, Scope, TimeRange
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.access import Timeline
from serving.ports.memory_store import Batch, MemoryStore
from tests.fakes.store import InMemoryStore
from tests.fakes.times import InMemoryTimeline
from tests.support.builders import NOON, TENANT, batch_of, days, fact, scope, segment

# So that the tests notice a statement without its tenant.
pytestmark = pytest.mark.without_row_security

OTHER = TenantName("other")


class Stored(NamedTuple):
    store: MemoryStore
    timeline: Timeline

    async def latest(self, of: Scope, depth: int = 100) -> str:
        """The ids of the latest, in order."""
        found = await self.timeline.latest(of, depth, Deadline.after(60))
        return " ".join(candidate.item.id for candidate in found)


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def stored(request: pytest.FixtureRequest) -> Stored:
    if request.param == "memory":
        memory = InMemoryStore()
        return Stored(memory, InMemoryTimeline(memory))
    adapters = request.getfixturevalue("postgres")
    return Stored(adapters.store, adapters.timeline)


async def test_the_latest_come_first_and_their_score_is_the_time(stored: Stored) -> None:
    precise = NOON + timedelta(microseconds=1)
    await stored.store.write(
        batch_of(segment("noon"), segment("later", event_time=precise), fact("f", "x", "y", "z"))
    )

    found = await stored.timeline.latest(scope(), 10, Deadline.after(60))

    assert found == [
        Candidate(segment_id("later"), precise.timestamp()),
        Candidate(segment_id("noon"), NOON.timestamp()),
    ]


async def test_equal_times_are_ordered_by_id_within_depth(stored: Stored) -> None:
    await stored.store.write(
        Batch(
            TENANT,
            [segment(id_) for id_ in ("d", "a", "é", "c", "B")]
            + [segment("last", event_time=NOON + days(0.5))],
        )
    )

    assert await stored.latest(scope()) == "last B a c d é"
    assert await stored.latest(scope(), 3) == "last B a"
    assert await stored.latest(scope(), 0) == ""


async def test_earliest_come_first_when_wanted(stored: Stored) -> None:
    await stored.store.write(
        batch_of(*(segment(name, event_time=NOON + days(n)) for n, name in enumerate("bcad")))
    )

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
    await stored.store.write(
        batch_of(
            about("on", 4, 5, event_time=NOON + days(1)),
            about("across", 3, 4.5, event_time=NOON + days(0.5)),
            about("before", 3, 4),
            about("after", 5, 6),
            about("long", 0, 30),
            about("hidden", 4, 5, sensitive=True),
            about("later", 4, 5, event_time=NOON + days(9)),
            segment("none"),
        )
    )

    found = await stored.timeline.mentioning(
        Period(NOON + days(4), NOON + days(5)), scope(as_of=NOON + days(2)), 9, Deadline.after(60)
    )

    assert found == [
        Candidate(segment_id("on"), (NOON + days(1)).timestamp()),
        Candidate(segment_id("across"), (NOON + days(0.5)).timestamp()),
    ]


async def test_mentions_of_another_tenant_stay_hidden(stored: Stored) -> None:
    await stored.store.write(Batch(OTHER, [about("theirs", 4, 5)]))

    period = Period(NOON + days(4), NOON + days(5))
    assert await stored.timeline.mentioning(period, scope(), 9, Deadline.after(60)) == []


async def test_segment_after_the_clock_is_hidden(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("now"), segment("later", event_time=NOON + days(2))))

    assert await stored.latest(scope(as_of=NOON + days(1))) == "now"
    assert await stored.latest(scope(as_of=NOON + days(2))) == "later now"


async def test_segment_recorded_after_known_at_is_hidden(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("now")))

    assert await stored.latest(scope(known_at=datetime.now(UTC) - days(1))) == ""
    assert await stored.latest(scope(known_at=datetime.now(UTC) + days(1))) == "now"


FILTERS = [
    (Filter(kinds=("object",)), "b"),
    (Filter(labels={"project": ("goa",)}), "b a"),
    (Filter(min_importance=0.6), "c"),
    (Filter(event_time=TimeRange(NOON + days(0.25))), "c b"),
    (Filter(updated_at=TimeRange(None, NOON - days(10_000))), ""),
    (Filter(speakers=("nobody",)), ""),
]


async def test_filters_hold(stored: Stored) -> None:
    await stored.store.write(
        batch_of(
            segment("a", labels={"project": "goa"}),
            segment("b", labels={"project": "goa"}, kind="object", event_time=NOON + days(0.25)),
            segment("c", importance=0.9, event_time=NOON + days(0.5)),
        )
    )

    for filter_, passing in FILTERS:
        assert await stored.latest(scope(filter_=filter_)) == passing, filter_


async def test_sensitive_segments_are_not_on_it(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("a"), segment("b", sensitive=True)))

    assert await stored.latest(scope()) == "a"


async def test_tenants_do_not_see_each_other(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("mine")))
    await stored.store.write(Batch(OTHER, [segment("theirs")]))

    assert await stored.latest(scope()) == "mine"
    assert await stored.latest(scope(OTHER)) == "theirs"
    assert await stored.latest(scope("nobody")) == ""


# ---------------------------------------------------------------- what is important, and what holds


async def test_most_important_come_first_then_the_latest(stored: Stored) -> None:
    await stored.store.write(
        batch_of(
            segment("usual"),
            segment("old", importance=0.9, event_time=NOON - days(9)),
            segment("new", importance=0.9),
            segment("pinned", importance=1.0, event_time=NOON - days(90)),
            segment("later", importance=1.0, event_time=NOON + days(2)),
            segment("secret", importance=1.0, sensitive=True),
            segment("note", importance=1.0, kind="note"),
        )
    )
    turns = scope(filter_=Filter(kinds=("turn",)))

    found = await stored.timeline.important(turns, 0.8, 10, Deadline.after(60))
    fewer = await stored.timeline.important(turns, 0.8, 2, Deadline.after(60))

    assert [candidate.item.id for candidate in found] == ["pinned", "new", "old"]
    assert [candidate.score for candidate in found] == pytest.approx([1.0, 0.9, 0.9])
    assert fewer == found[:2]


async def holding(stored: Stored, of: Scope) -> str:
    found = await stored.timeline.holding(of, 100, Deadline.after(60))
    return " ".join(candidate.item.id for candidate in found)


async def test_facts_that_hold_come_latest_first(stored: Stored) -> None:
    await stored.store.write(
        batch_of(
            fact("always", "Ola", "likes", "tea", recorded_at=NOON - days(50)),
            fact("began", "Ola", "works at", "Lotus", valid_from=NOON - days(9)),
            fact("ended", "Ola", "works at", "Ibis", valid_to=NOON - days(9)),
            fact("ends", "Ola", "rents", "a boat", valid_to=NOON + days(9)),
            fact("begins", "Ola", "rents", "a car", valid_from=NOON + days(9)),
            fact("wrong", "Ola", "is", "a pilot", retracted_at=NOON),
            fact("secret", "Ola", "has", "a pin", sensitive=True),
            fact(
                "leeds",
                *("Ola", "lives in", "Leeds"),
                valid_from=NOON - days(99),
                single_valued=True,
            ),
            fact(
                "york", *("Ola", "lives in", "York"), valid_from=NOON - days(3), single_valued=True
            ),
        )
    )

    assert await holding(stored, scope()) == "ends york began always"
    assert await holding(stored, scope(as_of=NOON - days(4))) == "ends began always leeds"
    assert await holding(stored, scope(as_of=NOON + days(10))) == "begins york began always"
    assert await holding(stored, scope(OTHER)) == ""


EVIDENCE_FILTERS = [
    (Filter(), "a b both dangling free"),
    (Filter(sessions=("a",)), "a both"),
    (Filter(none_of=Exclusion(sessions=("a",))), "b both dangling free"),
    (Filter(none_of=Exclusion(sessions=("a", "b"))), "dangling free"),
    (Filter(none_of=Exclusion(fact_ids=("free", "b"))), "a both dangling"),
    (Filter(kinds=("turn",), none_of=Exclusion(sessions=("a",))), "b both"),
]


async def test_filters_hold_for_the_evidence_of_facts(stored: Stored) -> None:
    def held(id_: str, *evidence: str) -> Fact:
        return fact(id_, "Ola", "likes", id_, evidence=evidence)

    await stored.store.write(
        batch_of(
            *(segment(session, session=session) for session in ("a", "b")),
            *(held("a", "a"), held("b", "b"), held("both", "a", "b")),
            *(held("free"), held("dangling", "never stored")),
        )
    )

    for filter_, passing in EVIDENCE_FILTERS:
        assert await holding(stored, scope(filter_=filter_)) == passing, filter_


async def test_facts_as_known_then_hold(stored: Stored) -> None:
    moved, told = NOON - days(9), NOON - days(1)
    await stored.store.write(
        batch_of(
            fact(
                "leeds",
                *("Ola", "lives in", "Leeds"),
                recorded_at=NOON - days(50),
                single_valued=True,
            ),
            fact(
                "york",
                *("Ola", "lives in", "York"),
                valid_from=moved,
                recorded_at=told,
                single_valued=True,
            ),
        )
    )

    assert await holding(stored, scope(known_at=NOON - days(2))) == "leeds"
    assert await holding(stored, scope(known_at=NOON)) == "york"


async def test_fact_with_sensitive_evidence_is_hidden(stored: Stored) -> None:
    pin = fact("pin", "Ola", "has the pin", "4711", evidence=("said",))
    await stored.store.write(batch_of(segment("said", sensitive=True), pin))

    assert await holding(stored, scope()) == ""
