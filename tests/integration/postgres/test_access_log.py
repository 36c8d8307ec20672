"""Storing access counts, and finding the latest accesses."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.reads.access_log import PostgresAccessLog
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemId
from serving.domain.questions.query import NO_FILTER, Filter, TimeRange
from serving.ports.memory_store import Batch
from tests.fakes.store import InMemoryStore
from tests.fakes.times import InMemoryAccessLog
from tests.integration.postgres.log.following import waits_for_lock, write
from tests.support.builders import TENANT, days, ids, scope, segment
from tests.support.waiting import until_async

pytestmark = pytest.mark.postgres


TODAY = datetime.now(UTC)


A, B = ids("a", "b")


async def times_shown(log: PostgresAccessLog, item: ItemId = A) -> int:
    shown = await log.shown_counts(TENANT, [item], Deadline.after(60))
    return shown.get(item, 0)


async def test_remaining_accesses_are_stored_at_the_end(postgres: Postgres) -> None:
    await write(postgres, segment("a"))
    log = PostgresAccessLog(postgres.database)
    await log.open()
    log.record(TENANT, [A])

    await log.close()

    assert await times_shown(postgres.access) == 1


async def test_memory_for_counts_is_bounded(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.adapters.postgres.reads.access_log.MAX_PENDING", 1)
    await write(postgres, segment("a"), segment("b"))

    postgres.access.record(TENANT, ids("a", "b", "a"))
    await postgres.access.flush()

    assert [await times_shown(postgres.access, item) for item in (A, B)] == [2, 0]


async def test_failed_store_keeps_the_accesses(postgres: Postgres) -> None:
    log = PostgresAccessLog(postgres.database)
    await write(postgres, segment("a"))
    log.record(TENANT, [A])

    async with postgres.database.transaction() as connection:
        await connection.execute("SELECT FROM segment FOR UPDATE")
        flush = asyncio.create_task(log.flush())
        await until_async(lambda: waits_for_lock(postgres))
        log.record(TENANT, [A])
        flush.cancel()
        await asyncio.gather(flush, return_exceptions=True)
    await log.flush()

    assert await times_shown(log) == 2


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
