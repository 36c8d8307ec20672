"""A crashed PostgreSQL gives ids of aborted transactions again: no reader may have passed them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.migrations import migrate
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.ports.memory_store import WriteReceipt
from tests.fixtures.postgres import QUICK, pid_of
from tests.integration.postgres.log.following import MODEL, bootstrap, embed, write
from tests.support.builders import TENANT, segment
from tests.support.processes import is_alive
from tests.support.waiting import until, until_async

pytestmark = pytest.mark.postgres

WRITES_LATE = {**QUICK, "wal_writer_delay": "10000"}
ABORTED = 50


@dataclass(frozen=True, slots=True)
class Server:
    """A server of the test's own."""

    handle: EmbeddedPostgres
    dsn: str

    def crash(self) -> None:
        """Kills the server, and starts it again."""
        postmaster = psutil.Process(pid_of(self.handle.root))
        postmaster.kill()
        until(lambda: not is_alive(postmaster))
        self.handle.restart_if_dead()


@pytest.fixture
async def server(short_directory: Path) -> AsyncIterator[Server]:
    """A server that writes only what a commit makes it write."""
    handle = EmbeddedPostgres(short_directory / "crashes", settings=WRITES_LATE)
    with handle as dsn:
        await migrate(dsn)
        yield Server(handle, dsn)


@contextmanager
def aborted_transactions(dsn: str) -> Iterator[int]:
    """Begins and aborts some; yields the last one's id."""
    with psycopg.connect(dsn) as connection:
        for _ in range(ABORTED):
            connection.execute("INSERT INTO tombstone (hash) VALUES ('')")
            row = connection.execute("SELECT pg_current_xact_id()::text::int8").fetchone()
            connection.rollback()
        assert row is not None
        yield row[0]


def given_again(receipt: WriteReceipt, aborted: int) -> bool:
    return max(receipt.token.xids) <= aborted


async def test_an_index_sees_what_is_written_after_a_crash(server: Server) -> None:
    async with Postgres(server.dsn) as postgres:
        await write(postgres, segment("before"))
        await embed(postgres)
        with aborted_transactions(server.dsn) as aborted:
            position, _ = await bootstrap(postgres)
            server.crash()

    async with Postgres(server.dsn) as postgres:
        receipt = await write(postgres, segment("after"))
        await embed(postgres)
        delta = await postgres.feed.changes_since(position, MODEL)

    assert given_again(receipt, aborted), "the crash has lost nothing, so this shows nothing"
    assert [row.item.id for row in delta.rows] == ["after"]


async def test_the_names_in_memory_include_those_stored_after_a_crash(server: Server) -> None:
    async with Postgres(server.dsn) as postgres:
        await write(postgres, segment("before", entities=["Ann"]))
        with aborted_transactions(server.dsn) as aborted:
            assert set(await postgres.store.known_names(TENANT)) == {"ann"}
            server.crash()
        async with Postgres(server.dsn) as writing:
            receipt = await write(writing, segment("after", entities=["Bob"]))

        await until_async(postgres.store.ready)
        names = await postgres.store.known_names(TENANT)

    assert given_again(receipt, aborted), "the crash has lost nothing, so this shows nothing"
    assert set(names) == {"ann", "bob"}
