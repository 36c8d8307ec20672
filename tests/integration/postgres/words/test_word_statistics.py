"""Word statistics, counted and estimated."""

from __future__ import annotations

import asyncio

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.notifications import Channel, Notifications
from serving.adapters.postgres.words import word_statistics
from serving.adapters.postgres.words.word_statistics import (
    UNKNOWN_SHARE,
    WordStatisticsCache,
    count_words,
    estimate_words,
)
from serving.domain.items.records import TenantName
from tests.integration.postgres.log.following import run, write
from tests.integration.postgres.words.searching import search
from tests.support.builders import TENANT, ids, segment
from tests.support.waiting import until_async

pytestmark = pytest.mark.postgres

OTHER = TenantName("other")


async def tenant_id(postgres: Postgres, tenant: TenantName) -> int:
    [(found,)] = await run(postgres, "SELECT id FROM tenant WHERE name = %s", tenant)
    return int(found)


async def fill(postgres: Postgres) -> None:
    """A tenant with four segments, of two and three words, and another with long ones."""
    said = ("boat harbour", "boat harbour", "boat island", "boat sail wind")
    await write(postgres, *map(segment, "abcd", said))
    long = "boat one two three four five six"
    await write(postgres, *(segment(f"{place}", long) for place in range(4)), tenant=OTHER)


async def test_a_tenants_words_are_counted_exactly(postgres: Postgres) -> None:
    await fill(postgres)
    await write(postgres, *(segment(id_, "xyzzy boat", sensitive=True) for id_ in "ef"))
    async with postgres.database.work() as connection:
        counted = await count_words(connection, await tenant_id(postgres, TENANT), 4)

    assert counted.frequency("boat") == 4
    assert counted.frequency("harbour") == 2
    for word in ("island", "never said", "xyzzy"):  # the last is in sensitive segments
        assert counted.frequency(word) == 1


async def test_estimates_take_the_words_of_all_tenants(postgres: Postgres) -> None:
    await fill(postgres)
    async with postgres.database.work() as connection:
        unknown = await estimate_words(connection, 4)
        await connection.execute("ANALYZE segment")
        estimated = await estimate_words(connection, 4)

    assert unknown.frequency("boat") == unknown.frequency("harbour") == 4 * UNKNOWN_SHARE
    assert estimated.frequency("boat") == 4
    assert 0 < estimated.frequency("never said") < estimated.frequency("harbour") < 4


async def test_a_large_tenant_is_searched_with_estimates(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_statistics, "LARGEST_COUNTED_AT_ONCE", 0)
    monkeypatch.setattr(word_statistics, "LARGEST_COUNTED", 0)
    await fill(postgres)

    for _ in range(3):
        found = await search(postgres.lexical, "island harbour", depth=10)
        assert sorted(candidate.item for candidate in found) == ids("a", "b", "c")


async def test_old_statistics_are_used_once_and_recounted(postgres: Postgres) -> None:
    now = 0.0
    await fill(postgres)
    number = await tenant_id(postgres, TENANT)
    cache = WordStatisticsCache(postgres.database, postgres.notifications, clock=lambda: now)

    async def counted(segments: int) -> bool:
        async with postgres.database.work() as connection:
            return (await cache.of_tenant(connection, number)).segments == segments

    assert await counted(4)
    await write(postgres, segment("e"))
    assert await counted(4)
    now = 10.0
    assert await counted(4)
    await until_async(lambda: counted(5))
    await cache.close()


async def test_unchanged_words_are_counted_once(postgres: Postgres) -> None:
    now = 0.0
    await fill(postgres)
    number = await tenant_id(postgres, TENANT)
    quiet = Notifications(postgres.database)  # does not listen
    cache = WordStatisticsCache(postgres.database, quiet, clock=lambda: now)

    async with postgres.database.work() as connection:
        await cache.of_tenant(connection, number)
        now = 1000.0
        await cache.of_tenant(connection, number)
        without_news = tasks()
        quiet.announce(Channel.CHANGES)
        await cache.of_tenant(connection, number)
        with_news = tasks()
    await cache.close()
    await quiet.close()

    assert with_news - without_news >= {"word-statistics"}


def tasks() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks()}
