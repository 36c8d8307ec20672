"""A search whose caller is cancelled ends in PostgreSQL, not only here."""

from __future__ import annotations

import asyncio

import pytest

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.row_security import CallerConnection
from serving.domain.budget import Deadline

pytestmark = pytest.mark.postgres

MARK = "cancelled by its caller"
RUNNING = f"""
SELECT count(*) FROM pg_stat_activity
 WHERE state = 'active' AND query LIKE '%%{MARK}%%' AND pid <> pg_backend_pid()
"""


async def running(database: Database) -> int:
    async with database.work() as connection:
        row = await (await connection.execute(RUNNING)).fetchone()
    assert row is not None
    return int(row[0])


async def test_cancelled_search_ends_and_returns_its_connection(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.adapters.postgres.connection.pool.SEARCH_TIMEOUT_MS", 60_000)
    async with Database(postgres_dsn, search_connections=1) as database:

        async def search() -> None:
            async with database.search(Deadline.after(60)) as connection:
                await connection.execute(f"SELECT pg_sleep(60) -- {MARK}")

        searching = asyncio.create_task(search())
        async with asyncio.timeout(120):
            while not await running(database):
                pass

        searching.cancel()
        await asyncio.wait([searching])

        assert searching.cancelled()
        assert await running(database) == 0
        async with database.search(Deadline.after(30)) as connection:
            await connection.execute("SELECT 1")


async def test_cancellation_during_return_keeps_the_connection(postgres_dsn: str) -> None:
    """As of a deadline, after that of the caller."""
    async with Database(postgres_dsn, search_connections=1) as database:
        pool = database._search._pool
        returning, go_on, return_it = asyncio.Event(), asyncio.Event(), pool.putconn

        async def return_slowly(connection: CallerConnection) -> None:
            returning.set()
            await go_on.wait()
            await return_it(connection)

        pool.putconn = return_slowly  # type: ignore[assignment, method-assign]
        searching = asyncio.create_task(search_once(database))
        await returning.wait()
        searching.cancel()
        await asyncio.wait([searching])
        go_on.set()

        await search_once(database)


async def search_once(database: Database) -> None:
    async with database.search(Deadline.after(30)) as connection:
        await connection.execute("SELECT 1")
