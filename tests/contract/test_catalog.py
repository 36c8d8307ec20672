"""What every catalog does, the one in memory and PostgreSQL."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from serving.domain.items.records import TenantName, segment_id
from serving.domain.questions.query import NO_FILTER
from serving.ports.memory_store import Batch
from tests.fixtures.memory_or_postgres import Stored
from tests.support.builders import NOON, TENANT, days, fact, segment


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


async def test_tenants_come_in_pages_with_what_they_hold(stored: Stored) -> None:
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
