"""Outages of PostgreSQL and recovery."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.migrations import migrate
from serving.adapters.postgres.connection.pool import Database
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError, StoreUnavailableError
from tests.fixtures.postgres import QUICK, pid_of
from tests.integration.postgres.log.following import (
    MODEL,
    bootstrap,
    run,
    scalar,
    write,
)
from tests.integration.postgres.words.searching import search
from tests.support.builders import TENANT, ids, segment
from tests.support.waiting import until_async

pytestmark = pytest.mark.postgres


@pytest.fixture
def server(short_directory: Path, request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(short_directory / request.node.name[:40], settings=QUICK)
    yield server
    server.stop()


@pytest.fixture
async def adapters(server: EmbeddedPostgres) -> AsyncIterator[Postgres]:
    """Adapters of that server, after migration."""
    dsn = server.start()
    await migrate(dsn)
    async with Postgres(dsn) as opened:
        yield opened


async def test_without_postgresql_every_call_says_so(
    adapters: Postgres, server: EmbeddedPostgres
) -> None:
    async def lead() -> None:
        async with adapters.change_log.leadership("graph", None):
            pass

    server.stop()

    assert not await adapters.store.ready()
    for call in (
        write(adapters, segment("a")),
        search(adapters.lexical, "Goa", within_s=2),
        adapters.change_log.next_batch("graph", None, 10),
        bootstrap(adapters),
        lead(),
        migrate(adapters.database.dsn),
    ):
        with pytest.raises(StoreUnavailableError):
            await call


async def test_adapters_open_before_postgresql_starts(server: EmbeddedPostgres) -> None:
    dsn = server.start()
    await migrate(dsn)
    server.stop()

    async with Postgres(dsn) as adapters:
        assert not await adapters.store.ready()
        server.start()

        await until_async(adapters.store.ready)
        await write(adapters, segment("a"))


async def test_calls_and_listening_go_on_after_a_restart(
    adapters: Postgres, server: EmbeddedPostgres
) -> None:
    await write(adapters, segment("a"))
    await adapters.change_log.wait(10)
    server.stop()
    server.start()

    found = await search(adapters.lexical, "Goa")  # the first call succeeds
    async with asyncio.timeout(120):
        await adapters.change_log.wait(20)  # until it listens again
        waiting = asyncio.create_task(adapters.change_log.wait(150))
        await write(adapters, segment("b"))
        await waiting

    assert [candidate.item for candidate in found] == ids("a")
    assert await adapters.store.count(TENANT, ids("a", "b")) == 2


async def test_counts_of_accesses_survive_an_outage(
    adapters: Postgres, server: EmbeddedPostgres
) -> None:
    await write(adapters, segment("a"))
    server.stop()
    adapters.access.record(TENANT, ids("a", "unknown"))
    with pytest.raises(StoreUnavailableError):
        await adapters.access.flush()
    adapters.access.record(TENANT, ids("a"))
    server.start()

    async def stored() -> bool:
        # The pool may still be waiting to connect again.
        with contextlib.suppress(StoreUnavailableError):
            return await run(adapters, "SELECT sum(shown) FROM access_count") == [(2,)]
        return False

    await until_async(stored)


async def test_a_crash_loses_nothing_that_was_acknowledged(short_directory: Path) -> None:
    server = EmbeddedPostgres(short_directory / "crash")
    with server as dsn:
        await migrate(dsn)
        async with Postgres(dsn) as adapters:
            await write(adapters, segment("a"))
            os.kill(pid_of(server.root), signal.SIGKILL)
            server.stop()
            server.start()

            assert await adapters.store.count(TENANT, ids("a")) == 1
            assert (await adapters.change_log.next_batch("embedding", MODEL, 10)).changes


async def test_a_statement_that_takes_too_long_is_a_timeout(postgres: Postgres) -> None:
    with pytest.raises(TimeoutError):
        async with postgres.database.search(Deadline.after(0.05)) as connection:
            await connection.execute("SELECT pg_sleep(10)")

    assert await postgres.store.ready()


async def test_slow_planned_search_leaves_its_connection_unchanged(postgres_dsn: str) -> None:
    async with Database(postgres_dsn, search_connections=1) as database:
        with pytest.raises(TimeoutError):
            async with database.planned_search(Deadline.after(0.05)) as connection:
                await connection.execute("SELECT pg_sleep(10)")

        async with database.search(Deadline.after(10)) as connection:
            assert await scalar(connection, "SHOW plan_cache_mode") == "force_generic_plan"
            assert not connection.info.transaction_status


async def test_the_server_ends_a_search_that_nobody_cancels(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.adapters.postgres.connection.pool.SEARCH_TIMEOUT_MS", 50)
    async with Database(postgres_dsn) as database:
        with pytest.raises(TimeoutError, match="statement"):
            async with database.search(Deadline.after(10)) as connection:
                await connection.execute("SELECT pg_sleep(10)")


async def test_busy_connections_are_a_timeout_and_no_outage(postgres_dsn: str) -> None:
    async with (
        Database(postgres_dsn, search_connections=1) as database,
        database.search(Deadline.after(10)),
    ):
        with pytest.raises(TimeoutError):
            async with database.search(Deadline.after(0.05)):
                pass


async def test_too_many_waiting_callers_are_rejected(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.adapters.postgres.connection.pool.MAX_WAITING", 1)

    async def ask(database: Database) -> None:
        async with database.search(Deadline.after(0.2)):
            pass

    async with (
        Database(postgres_dsn, search_connections=1) as database,
        database.search(Deadline.after(10)),
    ):
        calls = [ask(database) for _ in range(3)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)

    assert sum(isinstance(outcome, OverloadedError) for outcome in outcomes) == 2
