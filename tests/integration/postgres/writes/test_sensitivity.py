"""Sensitive items are found by words and reach no projection."""

from __future__ import annotations

import asyncio

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.writes.batch import Batch, write_batch
from serving.domain.items.records import ItemId, TenantName, fact_id, segment_id
from serving.ports.graph import GraphChanges
from serving.ports.memory_store import Selector
from tests.integration.postgres.log.following import (
    MODEL,
    bootstrap,
    embed,
    eventually,
    project_graph,
    scalar,
)
from tests.integration.postgres.words.searching import search
from tests.support.builders import TENANT, fact, ids, segment

pytestmark = pytest.mark.postgres

RESTING = fact("f", "Ann", "likes", "Goa", evidence=("a", "b"))


def shown(changes: GraphChanges) -> list[ItemId]:
    """The items that the graph receives."""
    return sorted(
        [
            *(row.segment.item for row in changes.segments),
            *(row.fact.item for row in changes.facts),
        ]
    )


def removed(changes: GraphChanges) -> list[ItemId]:
    """The items removed from the graph."""
    return sorted(item for _, item in changes.removed)


async def embedded(postgres: Postgres) -> list[ItemId]:
    """The items that the index would hold."""
    _, rows = await bootstrap(postgres)
    return sorted(item for _, item in rows)


async def test_a_sensitive_segment_is_found_by_words_only(postgres: Postgres) -> None:
    await postgres.store.write(TENANT, [segment("a", sensitive=True)])

    found = await search(postgres.lexical, "Goa")

    assert [candidate.item for candidate in found] == ids("a")
    assert await embed(postgres) == []
    assert removed(await project_graph(postgres)) == ids("a")


async def test_a_fact_resting_on_a_sensitive_segment_is_kept_from_the_projections(
    postgres: Postgres,
) -> None:
    await postgres.store.write(TENANT, [segment("a"), segment("b", sensitive=True), RESTING])

    assert await embed(postgres) == ids("a")
    changes = await project_graph(postgres)
    assert shown(changes) == ids("a")
    assert removed(changes) == [fact_id("f"), segment_id("b")]


async def test_turning_sensitive_takes_the_vectors_in_the_same_transaction(
    postgres: Postgres,
) -> None:
    await postgres.store.write(TENANT, [segment("a"), segment("b"), RESTING])
    await embed(postgres)
    position, _ = await bootstrap(postgres)
    await project_graph(postgres)

    await postgres.store.write(TENANT, [segment("b", sensitive=True)])

    async with postgres.database.work() as connection:
        assert await scalar(connection, "SELECT count(*) FROM embedding") == 1
    assert await embedded(postgres) == ids("a")
    delta = await postgres.feed.changes_since(position, MODEL)
    assert sorted(item for _, item in delta.removed) == [fact_id("f"), segment_id("b")]
    assert removed(await project_graph(postgres)) == [fact_id("f"), segment_id("b")]


async def test_ceasing_to_be_sensitive_brings_the_facts_back(postgres: Postgres) -> None:
    await postgres.store.write(TENANT, [segment("a"), segment("b", sensitive=True), RESTING])
    await embed(postgres)
    await project_graph(postgres)

    await postgres.store.write(TENANT, [segment("b")])

    assert sorted(await embed(postgres)) == [fact_id("f"), segment_id("b")]
    assert shown(await project_graph(postgres)) == [fact_id("f"), segment_id("b")]


async def test_a_sensitive_segment_that_comes_after_the_fact_hides_it(postgres: Postgres) -> None:
    await postgres.store.write(TENANT, [segment("a"), RESTING])
    await embed(postgres)
    await project_graph(postgres)

    await postgres.store.write(TENANT, [segment("b", sensitive=True)])

    assert await embedded(postgres) == ids("a")
    assert removed(await project_graph(postgres)) == [fact_id("f"), segment_id("b")]


async def test_a_fact_comes_back_when_its_sensitive_evidence_is_erased(postgres: Postgres) -> None:
    await postgres.store.write(TENANT, [segment("a"), segment("b", sensitive=True), RESTING])
    await embed(postgres)
    await project_graph(postgres)

    await postgres.store.erase(TENANT, Selector(items=(segment_id("b"),)))

    assert await embed(postgres) == [fact_id("f")]
    changes = await project_graph(postgres)
    assert [row.fact.evidence for row in changes.facts] == [("a",)]


async def test_a_fact_that_turns_sensitive_itself_loses_its_vector(postgres: Postgres) -> None:
    await postgres.store.write(TENANT, [fact("f", "x", "y", "z")])
    await embed(postgres)

    await postgres.store.write(TENANT, [fact("f", "x", "y", "z", sensitive=True)])

    assert await embedded(postgres) == []
    assert await embed(postgres) == []


async def test_another_tenants_sensitive_segment_hides_nothing(postgres: Postgres) -> None:
    await postgres.store.write(TENANT, [segment("a"), RESTING])

    await postgres.store.write(TenantName("other"), [segment("b", sensitive=True)])

    assert sorted(await embed(postgres)) == [fact_id("f"), segment_id("a")]


async def test_a_segment_turns_sensitive_only_after_facts_that_are_being_written(
    postgres: Postgres,
) -> None:
    await postgres.store.write(TENANT, [segment("a")])
    batch = Batch(tenant=TENANT, items=[fact("f", "x", "y", "z", evidence=("b",))])

    async def waits() -> bool:
        async with postgres.database.work() as connection:
            return bool(await scalar(connection, "SELECT count(*) FROM pg_locks WHERE NOT granted"))

    async with postgres.database.transaction() as connection:
        await write_batch(connection, batch, exclusive=False)
        hiding = asyncio.create_task(postgres.store.write(TENANT, [segment("b", sensitive=True)]))
        assert await eventually(waits)
    receipt = await hiding

    (xid,) = receipt.token.xids
    async with postgres.database.work() as connection:
        logged = await scalar(
            connection,
            "SELECT count(*) FROM change_log WHERE kind = 'fact' AND xid = %s::text::xid8",
            str(xid),
        )
    assert logged == 1


async def test_no_fact_is_written_past_a_segment_that_turns_sensitive(postgres: Postgres) -> None:
    names = [f"{place:02}" for place in range(12)]
    await postgres.store.write(TENANT, [segment(name) for name in names])
    await embed(postgres)

    async def tell(name: str) -> None:
        await postgres.store.write(TENANT, [fact(name, "x", "y", name, evidence=(name,))])

    async def hide(name: str) -> None:
        await postgres.store.write(TENANT, [segment(name, sensitive=True)])

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(tell(name))
            tasks.create_task(hide(name))
            tasks.create_task(embed(postgres))
    await embed(postgres)

    assert await embedded(postgres) == []
    async with postgres.database.work() as connection:
        assert await scalar(connection, "SELECT count(*) FROM embedding") == 0
