"""Storing access counts, and finding the latest accesses."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.reads.access_log import PostgresAccessLog
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemId, TenantName, fact_id
from serving.domain.questions.query import NO_FILTER, Filter, TimeRange
from serving.ports.memory_store import Batch
from tests.fakes.store import InMemoryStore
from tests.fakes.times import InMemoryAccessLog
from tests.integration.postgres.log.following import eventually, scalar, waits_for_lock
from tests.support.builders import TENANT, batch_of, days, fact, ids, scope, segment

pytestmark = pytest.mark.postgres

OTHER = TenantName("other")
TODAY = datetime.now(UTC)


async def counts(postgres: Postgres) -> dict[str, int]:
    """The stored count of each item, as "tenant/id"."""
    async with postgres.database.work() as connection:
        cursor = await connection.execute(
            """
            SELECT tenant.name || '/' || item.id, shown
              FROM access_count
              JOIN (SELECT key, tenant_id, id FROM segment
                     UNION ALL SELECT key, tenant_id, id FROM fact) AS item
                   USING (key, tenant_id)
              JOIN tenant ON tenant.id = item.tenant_id
            """
        )
        return dict(await cursor.fetchall())


async def times_shown(log: PostgresAccessLog, item: ItemId) -> int:
    """The item's count according to the access log."""
    shown = await log.shown_counts(TENANT, [item], Deadline.after(60))
    return shown.get(item, 0)


async def test_accesses_are_stored_by_tenant_and_item(postgres: Postgres) -> None:
    for tenant in (TENANT, OTHER):
        await postgres.store.write(Batch(tenant, [segment("a"), fact("f", "x", "y", "z")]))

    postgres.access.record(TENANT, [*ids("a", "a"), fact_id("f")])
    await postgres.access.flush()
    postgres.access.record(TENANT, ids("a", "unknown"))
    postgres.access.record(OTHER, ids("a"))
    await postgres.access.flush()

    assert await counts(postgres) == {"acme/a": 3, "acme/f": 1, "other/a": 1}


async def test_remaining_accesses_are_stored_at_the_end(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))
    log = PostgresAccessLog(postgres.database)
    await log.open()
    log.record(TENANT, ids("a"))

    await log.close()

    assert await counts(postgres) == {"acme/a": 1}


async def test_memory_for_counts_is_bounded(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.adapters.postgres.reads.access_log.MAX_PENDING", 1)
    await postgres.store.write(batch_of(segment("a"), segment("b")))

    postgres.access.record(TENANT, ids("a", "b", "a"))
    await postgres.access.flush()

    assert await counts(postgres) == {"acme/a": 2}


async def test_an_idle_log_writes_nothing(postgres: Postgres) -> None:
    await postgres.access.flush()

    async with postgres.database.work() as connection:
        assert await scalar(connection, "SELECT count(*) FROM access_count") == 0


async def test_failed_store_keeps_the_accesses(postgres: Postgres) -> None:
    log = PostgresAccessLog(postgres.database)
    await postgres.store.write(batch_of(segment("a")))
    log.record(TENANT, ids("a"))

    async with postgres.database.transaction() as connection:
        await connection.execute("SELECT FROM segment FOR UPDATE")
        flush = asyncio.create_task(log.flush())
        assert await eventually(lambda: waits_for_lock(postgres))
        log.record(TENANT, ids("a"))
        flush.cancel()
        await asyncio.gather(flush, return_exceptions=True)
    await log.flush()

    assert await times_shown(log, ids("a")[0]) == 2


async def test_count_of_former_version_finds_its_tenant(postgres: Postgres) -> None:
    await postgres.store.write(
        batch_of(segment("a", event_time=TODAY - days(2)), segment("b", event_time=TODAY - days(1)))
    )
    async with postgres.database.work() as connection:
        await connection.execute(
            "INSERT INTO access_count (key, shown, last_shown) "
            "SELECT key, 5, now() FROM segment WHERE id = 'a'"
        )

    async def recent() -> list[ItemId]:
        of = scope(as_of=TODAY + days(1))
        return await postgres.access.recently_accessed(of, 10, Deadline.after(60))

    assert await times_shown(postgres.access, ids("a")[0]) == 0  # no caller sees it
    assert await recent() == ids("b", "a")
    postgres.access.record(TENANT, ids("a"))
    await postgres.access.flush()

    assert await times_shown(postgres.access, ids("a")[0]) == 6
    assert await recent() == ids("a", "b")


async def test_access_log_equals_a_table_of_times(postgres: Postgres) -> None:
    chance = random.Random(11)
    memory = InMemoryStore()
    logs = (PostgresAccessLog(postgres.database), InMemoryAccessLog(memory))
    segments = [
        segment(
            f"{place:02}",
            kind=chance.choice(["turn", "note"]),
            sensitive=chance.random() < 0.1,
            event_time=TODAY + days(chance.randrange(-20, 3)),
        )
        for place in range(60)
    ]
    for store in (postgres.store, memory):
        await store.write(Batch(TENANT, segments))
    filters = [NO_FILTER, Filter(kinds=("note",)), Filter(event_time=TimeRange(TODAY - days(9)))]

    for _ in range(60):
        shown = [stored.item for stored in chance.sample(segments, chance.randrange(4))]
        for log in logs:
            log.record(TENANT, shown)
        await logs[0].flush()
        of = scope(as_of=TODAY + days(chance.randrange(-15, 4)), filter_=chance.choice(filters))
        limit = chance.choice([1, 3, 10, 100])

        found, expected = [
            await log.recently_accessed(of, limit, Deadline.after(60)) for log in logs
        ]

        assert found == expected
