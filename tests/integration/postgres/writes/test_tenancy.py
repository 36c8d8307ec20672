"""Isolation of tenants: two tenants with the same ids, and each statement run for one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.log.verification import PostgresTruth
from serving.adapters.postgres.tables.tenants import find_tenant
from serving.adapters.postgres.words import word_statistics
from serving.adapters.postgres.words.lexical import PostgresLexicalSearch
from serving.domain.budget import Deadline
from serving.domain.items.records import Item, TenantName, fact_id, segment_id
from serving.domain.questions.query import NO_FILTER
from serving.domain.shards import Shard
from serving.ports.memory_store import Selector
from serving.ports.verification import Difference, Finding
from tests.integration.postgres.log.following import (
    MODEL,
    bootstrap,
    embed,
    project_graph,
    run,
    write,
)
from tests.integration.postgres.words.searching import search
from tests.support.builders import NOON, TENANT, fact, ids, segment

# So that the tests notice a statement without its tenant.
pytestmark = [pytest.mark.postgres, pytest.mark.without_row_security]

OTHER = TenantName("other")
MY_SEGMENT = segment("a", "mine", speaker="Ann", session="monday", entities=("Goa",))
MINE: list[Item] = [MY_SEGMENT, fact("f", "Ann", "likes", "Goa", evidence=("a",))]
THEIRS: list[Item] = [
    segment("a", "theirs", speaker="Ann", session="monday", entities=("Goa",)),
    segment("b", "theirs too", entities=("Rome",)),
    fact("f", "Ann", "likes", "Rome", evidence=("a", "b")),
    fact("g", "Ann", "likes", "Oslo", evidence=("b",)),
]
ALL = (segment_id("a"), segment_id("b"), fact_id("f"), fact_id("g"))


@pytest.fixture
async def both(postgres: Postgres) -> Postgres:
    await write(postgres, *MINE)
    await write(postgres, *THEIRS, tenant=OTHER)
    await embed(postgres)
    return postgres


async def stored(postgres: Postgres, tenant: TenantName) -> list[Item]:
    """The tenant's items among `ALL`, in that order, without server-set fields."""
    loaded = await postgres.store.load(tenant, ALL, Deadline.after(60))
    found = [loaded[item] for item in ALL if item in loaded]
    return [replace(item, created_at=None, updated_at=None) for item in found]


async def drawn(postgres: Postgres) -> list[tuple[TenantName, str]]:
    """The texts and objects that the graph is given next, with their tenants."""
    changes = await project_graph(postgres)
    texts = [(tenant, each.text) for tenant, each in changes.segments]
    return sorted(texts + [(tenant, each.object) for tenant, each in changes.facts])


async def test_pages_are_of_one_tenant(both: Postgres) -> None:
    segments = await both.catalog.list_segments(TENANT, NO_FILTER, "", 10)
    facts = await both.catalog.list_facts(TENANT, ("Ann",), NOON, "", 10)
    counts = await both.catalog.tenant_counts(TENANT, MODEL)
    their_counts = await both.catalog.tenant_counts(OTHER, MODEL)

    assert [found.text for found in segments] == ["mine"]
    assert [found.object for found in facts] == ["Goa"]
    assert (counts.segments, counts.facts, counts.embedded, counts.embeddable) == (1, 1, 2, 2)
    assert (their_counts.segments, their_counts.facts, their_counts.embedded) == (2, 2, 4)


async def test_scores_do_not_depend_on_other_tenants(both: Postgres) -> None:
    before = await search(both.lexical, "mine")
    await write(both, *(segment(f"m{place}", "mine, mine") for place in range(50)), tenant=OTHER)

    another_process = PostgresLexicalSearch(both.database, both.notifications)
    after = await search(another_process, "mine")

    assert before == after
    assert len(after) == 1


@pytest.mark.parametrize(
    "selector",
    [
        Selector(items=(segment_id("a"),)),
        Selector(items=ALL),
        Selector(session="monday"),
        Selector(speaker="Ann"),
        Selector(everything=True),
    ],
    ids=["one id", "all ids", "session", "speaker", "everything"],
)
async def test_erasing_touches_one_tenant(both: Postgres, selector: Selector) -> None:
    position, rows = await bootstrap(both)
    theirs = {name: row for name, row in rows.items() if name[0] == OTHER}

    receipt = await both.store.erase(TENANT, selector)

    assert sorted(receipt.items) == [fact_id("f"), segment_id("a")]
    assert await stored(both, OTHER) == THEIRS
    assert dict(await both.store.known_names(OTHER)).keys() == {"goa", "rome", "ann", "oslo"}
    assert (await both.store.known_names(TENANT)) == {}
    delta = await both.feed.changes_since(position, MODEL)
    assert {tenant for tenant, _ in delta.removed} == {TENANT}
    _, left = await bootstrap(both)
    assert left.keys() == theirs.keys()


async def test_erasing_a_name_leaves_it_to_another_tenant(both: Postgres) -> None:
    await write(both, segment("p", entities=("Paris",)))
    unused = "INSERT INTO entity SELECT id, 'paris', 'Paris' FROM tenant WHERE name = %s"
    await run(both, unused, OTHER)

    await both.store.erase(TENANT, Selector(items=(segment_id("p"),)))

    assert "paris" not in await both.store.known_names(TENANT)
    assert "paris" in await both.store.known_names(OTHER)


async def test_projections_are_given_each_item_under_its_tenant(both: Postgres) -> None:
    theirs = ("Oslo", "Rome", "theirs", "theirs too")
    assert await drawn(both) == [
        *((TENANT, said) for said in ("Goa", "mine")),
        *((OTHER, said) for said in theirs),
    ]
    _, rows = await bootstrap(both)
    assert len(rows) == 6


async def test_the_feed_reads_the_changes_of_the_tenant_that_changed(both: Postgres) -> None:
    position, _ = await bootstrap(both)
    await write(both, replace(MY_SEGMENT, importance=1.0))

    delta = await both.feed.changes_since(position, MODEL)

    assert [(row.tenant, row.item) for row in delta.rows] == [(TENANT, segment_id("a"))]


async def test_turning_sensitive_hides_facts_of_one_tenant(both: Postgres) -> None:
    await project_graph(both)

    await write(both, segment("a", "theirs", sensitive=True), tenant=OTHER)

    changes = await project_graph(both)
    assert sorted(changes.removed) == [(OTHER, fact_id("f")), (OTHER, segment_id("a"))]
    _, rows = await bootstrap(both)
    assert {item for tenant, item in rows if tenant == TENANT} == {segment_id("a"), fact_id("f")}


async def test_a_write_waits_for_no_row_of_another_tenant(both: Postgres) -> None:
    async with both.database.transaction() as connection:
        mine = await find_tenant(connection, TENANT)
        assert mine is not None
        await connection.execute("SELECT FROM fact WHERE tenant_id = %s FOR UPDATE", (mine.id,))

        async with asyncio.timeout(20):
            await write(both, segment("a", "theirs", sensitive=True), tenant=OTHER)


async def test_erasure_ignores_closings_of_other_tenants(both: Postgres) -> None:
    # "g" closes "h"; the other tenant's "g" has the segment "b" as evidence, which is erased.
    closing = fact("g", "Bob", "met", "Cid", closes=("h",))
    await write(both, segment("b"), closing, fact("h", "Bob", "met", "Al"))
    async with both.database.transaction() as connection:
        await connection.execute("SELECT FROM fact WHERE id = 'h' FOR UPDATE")

        async with asyncio.timeout(20):
            await both.store.erase(TENANT, Selector(items=(segment_id("b"),)))


async def test_evidence_of_another_tenant_feeds_no_shard(both: Postgres) -> None:
    await write(both, segment("b"))
    resting = (fact(f"f{n}", "x", "y", "z", evidence=("b",)) for n in range(9))
    await write(both, *resting, tenant=OTHER)
    await embed(both)

    shards = [(await bootstrap(both, shard=Shard(place, 2)))[1] for place in range(2)]

    assert [(TENANT, segment_id("b")) in rows for rows in shards].count(True) == 1


async def test_items_are_compared_of_one_tenant(both: Postgres) -> None:
    truth = PostgresTruth(both.database)

    assert [id_ async for batch in truth.items(TENANT) for id_ in batch] == [
        *ids("a"),
        fact_id("f"),
    ]


async def test_repairs_are_of_one_tenant(both: Postgres) -> None:
    await project_graph(both)

    await PostgresTruth(both.database).repair(
        [
            Finding(store, Difference.MISSING, TENANT, item)
            for store in ("graph", "embeddings")
            for item in (segment_id("a"), fact_id("f"))
        ]
    )

    assert await drawn(both) == [(TENANT, "Goa"), (TENANT, "mine")]
    embedded = [(await both.catalog.tenant_counts(of, MODEL)).embedded for of in (TENANT, OTHER)]
    assert embedded == [0, 4]


async def test_words_are_counted_and_estimated_of_one_tenant(
    both: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(both, segment("long", "many more words than mine has"), tenant=OTHER)
    found = {}
    for most in (1, 0):  # which counts a tenant of one segment, and estimates it
        monkeypatch.setattr(word_statistics, "LARGEST_COUNTED_AT_ONCE", most)
        statistics = word_statistics.WordStatisticsCache(both.database, both.notifications)
        async with both.database.work() as connection:
            tenant = await find_tenant(connection, TENANT)
            assert tenant is not None
            found[most] = await statistics.of_tenant(connection, tenant.id)
        await statistics.close()

    assert [each.segments for each in found.values()] == [1, 1]
