"""What it costs to drain a backlog, in pages that PostgreSQL reads: as much as it is long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.log.change_log import PostgresChangeLog
from serving.adapters.postgres.log.index_feed import PostgresIndexFeed
from serving.adapters.postgres.reads.catalog import PostgresCatalog
from serving.domain.consistency import NOTHING_SEEN
from serving.pipeline.writes.projector import GraphWork, Projector
from serving.ports.index_engine import FeedPosition
from tests.fakes.graph import InMemoryGraph
from tests.integration.postgres.log.following import MODEL, embed, project_graph, write
from tests.support.builders import TENANT, segment

pytestmark = pytest.mark.postgres

SHORT, LONG = 200, 1000

_AS_FOR_LARGE_TABLES = "; ".join(
    f"SET enable_{plan} = off" for plan in ("seqscan", "bitmapscan", "hashjoin", "mergejoin")
)


class CountedDatabase:
    """A database that counts the pages, in memory or not, that its statements read.

    They are planned as for large tables, of which indexes are used.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.pages = 0

    @asynccontextmanager
    async def work(self) -> AsyncIterator[Any]:
        async with self._database.work() as connection:
            yield _CountedConnection(connection, self)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Any]:
        async with self._database.snapshot() as connection:
            yield _CountedConnection(connection, self)


class _CountedConnection:
    fetch_all: Any = Connection.fetch_all
    fetch_row: Any = Connection.fetch_row

    def __init__(self, connection: Connection, counted: CountedDatabase) -> None:
        self._connection = connection
        self._counted = counted

    async def execute(self, statement: str, values: Any = None, **how: Any) -> Any:
        if statement.lstrip().startswith(("SELECT", "WITH")):
            await self._connection.execute(_AS_FOR_LARGE_TABLES)
            cursor = await self._connection.execute(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", values
            )
            [([explained],)] = await cursor.fetchall()
            plan = explained["Plan"]
            self._counted.pages += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        return await self._connection.execute(statement, values, **how)


async def lengthen(postgres: Postgres, first: int, last: int) -> None:
    """Writes segments of these numbers in transactions of 50, and lets the planner know."""
    for start in range(first, last, 50):
        numbers = range(start, min(last, start + 50))
        await write(postgres, *(segment(f"{number:05}") for number in numbers))
    async with await postgres.database.connect() as connection:
        await connection.execute("VACUUM ANALYZE")


def counted(postgres: Postgres) -> tuple[CountedDatabase, Database]:
    database = CountedDatabase(postgres.database)
    return database, cast(Database, database)


async def test_a_poll_reads_no_more_of_a_longer_backlog(postgres: Postgres) -> None:
    pages = []
    for first, last in ((0, SHORT), (SHORT, LONG)):
        await lengthen(postgres, first, last)
        database, as_database = counted(postgres)
        log = PostgresChangeLog(as_database, postgres.notifications)
        await log.next_batch("graph", None, 50)
        await log.next_batch("embedding", MODEL, 50)
        feed = PostgresIndexFeed(as_database, postgres.notifications)
        await feed.lag_s(FeedPosition("", NOTHING_SEEN, NOTHING_SEEN, complete=True))
        pages.append(database.pages)

    short, long = pages
    assert long <= 1.5 * short, "indexes may be a level deeper"


async def test_draining_costs_as_much_as_the_backlog_is_long(postgres: Postgres) -> None:
    pages = []
    await lengthen(postgres, 0, LONG)  # or the indexes would become deeper from one to the other
    await project_graph(postgres, limit=LONG)
    for first, last in ((LONG, LONG + SHORT), (LONG + SHORT, 2 * LONG + SHORT)):
        await lengthen(postgres, first, last)
        database, as_database = counted(postgres)
        log = PostgresChangeLog(as_database, postgres.notifications)
        projector = Projector(log, GraphWork(log, InMemoryGraph()))
        while await projector.step(None):
            pass
        pages.append(database.pages / (last - first))

    short, long = pages
    assert long <= 1.2 * short


async def test_an_old_transaction_makes_no_poll_longer(postgres: Postgres) -> None:
    pages = []
    async with postgres.database.transaction() as old:
        await old.execute("SELECT pg_current_xact_id()")
        for first, last in ((0, SHORT), (SHORT, LONG)):
            await lengthen(postgres, first, last)
            await project_graph(postgres, limit=LONG)
            database, as_database = counted(postgres)
            log = PostgresChangeLog(as_database, postgres.notifications)
            assert not (await log.next_batch("graph", None, 50)).changes
            pages.append(database.pages)

    short, long = pages
    assert long <= 1.5 * short


async def test_counts_look_up_only_what_is_not_embedded(postgres: Postgres) -> None:
    pages = []
    for first, last in ((0, SHORT), (SHORT, LONG)):
        await lengthen(postgres, first, last)
        while await embed(postgres):
            pass
        await write(postgres, segment("waits", f"a text of {last}"))
        database, as_database = counted(postgres)
        counts = await PostgresCatalog(as_database).tenant_counts(TENANT, MODEL)
        assert (counts.embedded, counts.embeddable) == (last, last + 1)
        pages.append(database.pages)

    short, long = pages
    assert (long - short) / (LONG - SHORT) < 0.5, "fewer than a page a segment"
