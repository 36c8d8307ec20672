"""What every catalog, timeline and access log does, the one in memory and PostgreSQL's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from serving.adapters.postgres.reads.access_log import PostgresAccessLog
from serving.domain.budget import Deadline
from serving.domain.items.period import Period
from serving.domain.items.records import Fact, ItemId, Segment, TenantName, fact_id, segment_id
from serving.domain.questions.query import NO_FILTER, Exclusion, Filter, Scope
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.memory_store import Batch, Selector
from tests.fixtures.memory_or_postgres import Stored
from tests.support.builders import NOON, OTHER, TENANT, days, fact, ids, scope, segment

# So that the tests notice a statement without its tenant.
pytestmark = pytest.mark.without_row_security


async def test_segments_come_in_pages_by_id(stored: Stored) -> None:
    await stored.write(*(segment(id_) for id_ in ("b", "é", "a", "B", "c")))
    await stored.write(segment("d"), tenant=TenantName("other"))

    first = await stored.catalog.list_segments(TENANT, NO_FILTER, "", 2)
    second = await stored.catalog.list_segments(TENANT, NO_FILTER, first[-1].id, 2)
    third = await stored.catalog.list_segments(TENANT, NO_FILTER, second[-1].id, 2)

    assert [found.id for found in (*first, *second, *third)] == ["B", "a", "b", "c", "é"]


ENTITIES = [((), "a b c"), (("ann",), "a b"), (("goa", "rome"), "a c"), (("nobody",), "")]


async def test_facts_are_found_by_their_entities(stored: Stored) -> None:
    await stored.write(
        fact("a", "Ann", "likes", "Goa"),
        fact("b", "Bob", "knows", "Ann"),
        fact("c", "Cid", "likes", "Rome"),
    )

    for entities, passing in ENTITIES:
        found = await stored.catalog.list_facts(TENANT, entities, None, "", 10)

        assert " ".join(found_fact.id for found_fact in found) == passing


async def test_facts_are_found_by_the_time_of_their_validity(stored: Stored) -> None:
    await stored.write(
        fact("always", "x", "y", "z"),
        fact("ended", "x", "y", "z", valid_to=NOON),
        fact("begins", "x", "y", "z", valid_from=NOON),
        fact("later", "x", "y", "z", valid_from=NOON + days(1)),
        fact("retracted", "x", "y", "z", retracted_at=NOON),
        fact("retracted later", "x", "y", "z", retracted_at=NOON + days(1)),
    )

    found = await stored.catalog.list_facts(TENANT, (), NOON, "", 10)

    assert [found_fact.id for found_fact in found] == ["always", "begins"]


async def test_facts_come_in_pages_by_id(stored: Stored) -> None:
    await stored.write(*(fact(id_, "x", "y", "z") for id_ in "cab"))

    first = await stored.catalog.list_facts(TENANT, (), None, "", 2)
    second = await stored.catalog.list_facts(TENANT, (), None, first[-1].id, 2)

    assert [found.id for found in (*first, *second)] == ["a", "b", "c"]


async def test_a_tenant_is_counted(stored: Stored) -> None:
    await stored.store.write(
        Batch(
            TENANT,
            [
                segment("a", event_time=NOON),
                segment("b", event_time=NOON + days(1), sensitive=True),
                fact("open", "x", "y", "z", evidence=("a",)),
                fact("hidden", "x", "y", "z", evidence=("a", "b")),
                fact("secret", "x", "y", "z", sensitive=True),
            ],
            "simple",
            time_zone=ZoneInfo("Asia/Kolkata"),
        )
    )

    counts = await stored.catalog.tenant_counts(TENANT, None)

    assert (counts.segments, counts.sensitive_segments, counts.facts) == (2, 1, 3)
    assert (counts.embeddable, counts.embedded) == (2, 0)
    assert (counts.text_search_config, counts.time_zone) == ("simple", "Asia/Kolkata")
    assert counts.newest == NOON


async def test_tenants_come_in_pages_with_their_counts(stored: Stored) -> None:
    secret = segment("s", "Größe", event_time=NOON + days(1), sensitive=True)
    said = fact("f", "Ann", "likes", "Goa", sentence="Ann likes Goa.")
    await stored.write(segment("a", "Goa"), secret, said, tenant=TenantName("b"))
    await stored.write(segment("a"), tenant=TenantName("c"))
    await stored.write(segment("a"), tenant=TenantName("a"))
    await stored.erase(segment_id("a"), tenant=TenantName("a"))

    first = await stored.catalog.list_tenants("", 2)
    second = await stored.catalog.list_tenants(first[-1].name, 2)

    assert [each.name for each in (*first, *second)] == ["a", "b", "c"]
    empty, held = first
    assert (empty.segments, empty.facts, empty.text_bytes, empty.newest) == (0, 0, 0, None)
    assert (held.segments, held.facts, held.newest) == (2, 1, NOON)
    assert held.text_bytes == len("GoaGrößeAnn likes Goa.".encode())
    assert (held.text_search_config, held.time_zone) == ("english", "UTC")


async def test_an_unknown_tenant_has_no_counts(stored: Stored) -> None:
    counts = await stored.catalog.tenant_counts(TENANT, None)

    assert (counts.segments, counts.facts) == (0, 0)
    assert (counts.text_search_config, counts.time_zone, counts.newest) == ("", "", None)
    assert await stored.catalog.dead_letters(TENANT, 10) == []


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


def about(id_: str, *times: tuple[float, float], **fields: Any) -> Segment:
    """A segment whose text speaks of these days, counted from noon."""
    mentions = tuple(Period(NOON + days(begins), NOON + days(ends)) for begins, ends in times)
    return segment(id_, mentions=mentions, **fields)


async def test_segments_that_mention_a_period_are_found(stored: Stored) -> None:
    await stored.write(
        about("on", (4, 5), event_time=NOON + days(1)),
        about("across", (3, 4.5), event_time=NOON + days(0.5)),
        about("several", (-9999, -9998), (4, 5), (6, 7), event_time=NOON - days(1)),
        about("before", (3, 4)),
        about("after", (5, 6)),
        about("around", (3, 4), (5, 6)),
        about("long", (0, 30)),
        about("long and short", (0, 30), (31, 32)),
        about("hidden", (4, 5), sensitive=True),
        about("later", (4, 5), event_time=NOON + days(9)),
        segment("none"),
    )
    await stored.write(about("theirs", (4, 5)), tenant=OTHER)

    found = await stored.timeline.mentioning(
        Period(NOON + days(4), NOON + days(5)), scope(as_of=NOON + days(2)), 9, Deadline.after(60)
    )

    assert found == [
        Candidate(segment_id("on"), (NOON + days(1)).timestamp()),
        Candidate(segment_id("across"), (NOON + days(0.5)).timestamp()),
        Candidate(segment_id("several"), (NOON - days(1)).timestamp()),
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


TODAY = datetime.now(UTC)
"""What is recorded is recorded now, so here segments are said around now."""


async def show(stored: Stored, *items: ItemId, tenant: TenantName = TENANT) -> None:
    stored.access.record(tenant, items)
    if isinstance(stored.access, PostgresAccessLog):
        await stored.access.flush()


async def counts(stored: Stored, items: Sequence[ItemId], tenant: TenantName = TENANT) -> list[int]:
    shown = await stored.access.shown_counts(tenant, items, Deadline.after(60))
    return [shown.get(item, 0) for item in items]


async def recent(stored: Stored, of: Scope, limit: int = 100) -> str:
    found = await stored.access.recently_accessed(of, limit, Deadline.after(60))
    return " ".join(item.id for item in found)


def now(**fields: object) -> Scope:
    return scope(**{"as_of": TODAY + days(7), **fields})  # type: ignore[arg-type]


async def say(stored: Stored, *names: str, tenant: TenantName = TENANT) -> None:
    """Stores segments, each said a day before the one before it, the first yesterday."""
    await stored.write(
        *(
            segment(name, event_time=TODAY - days(place))
            for place, name in enumerate(names, start=1)
        ),
        tenant=tenant,
    )


# ---------------------------------------------------------------- how often


async def test_accesses_add_up_by_tenant_and_item(stored: Stored) -> None:
    for tenant in (TENANT, OTHER):
        await stored.write(segment("a"), segment("b"), fact("a", "x", "y", "z"), tenant=tenant)
    items = [*ids("a", "b"), fact_id("a")]

    await show(stored, *ids("a"), fact_id("a"))
    await show(stored, *ids("a", "b"))
    await show(stored, *ids("a"))
    await show(stored, *ids("b"), tenant=OTHER)

    assert await counts(stored, items) == [3, 1, 1]
    assert await counts(stored, items, OTHER) == [0, 1, 0]


async def test_items_that_were_never_shown_have_no_count(stored: Stored) -> None:
    await say(stored, "a")

    assert await counts(stored, ids("a", "unknown")) == [0, 0]
    assert await counts(stored, []) == []
    assert await counts(stored, ids("a"), TenantName("nobody")) == [0]


# ---------------------------------------------------------------- when last


async def test_later_event_time_counts_over_last_access(stored: Stored) -> None:
    await say(stored, "a", "b")
    await stored.write(segment("later", event_time=TODAY + days(1)))

    await show(stored, *ids("later", "b"))

    assert await recent(stored, now()) == "later b a"


async def test_equal_times_are_ordered_by_id(stored: Stored) -> None:
    await stored.write(
        *(segment(name, event_time=TODAY - days(1)) for name in ("b", "é", "a", "B"))
    )
    assert await recent(stored, now()) == "B a b é"

    await show(stored, *ids("é", "b"))

    assert await recent(stored, now()) == "b é B a"


async def test_last_shown_precede_last_said_within_limit(stored: Stored) -> None:
    await say(stored, *"abcdef")
    for name in "bfbd":
        await show(stored, *ids(name))

    for limit in range(7):
        assert await recent(stored, now(), limit) == " ".join("dbface"[:limit])


async def test_segments_alone_are_listed_without_the_sensitive(stored: Stored) -> None:
    await say(stored, "a", "b")
    await stored.write(fact("a", "x", "y", "z"))
    await stored.write(*(segment(name, sensitive=True) for name in ("hidden", "never shown")))

    await show(stored, *ids("b"))
    await show(stored, fact_id("a"), *ids("unknown", "hidden"))

    assert await recent(stored, now()) == "b a"


async def test_tenants_do_not_see_each_other(stored: Stored) -> None:
    await say(stored, "a", "b")
    await say(stored, "b", "a", "c", tenant=OTHER)

    await show(stored, *ids("b", "c"))
    await show(stored, *ids("c"), tenant=OTHER)

    assert await recent(stored, now()) == "b a"
    assert await recent(stored, now(tenant=OTHER)) == "c b a"
    assert await recent(stored, now(tenant="nobody")) == ""


async def test_erased_segments_are_left_out(stored: Stored) -> None:
    await say(stored, "a", "b", "c")
    await show(stored, *ids("a", "b"))

    await stored.erase(*ids("b"))
    assert await recent(stored, now()) == "a c"

    await stored.store.erase(TENANT, Selector(everything=True))
    assert await recent(stored, now()) == ""
