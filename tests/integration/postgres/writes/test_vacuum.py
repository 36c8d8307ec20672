"""After `erasures vacuum` no file of PostgreSQL holds what was erased."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.conninfo import make_conninfo

from serving.__main__ import main
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.migration import migrate
from serving.adapters.postgres.writes.vacuum import vacuum_tables
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.ports.memory_store import Selector
from tests.fixtures.postgres import QUICK
from tests.integration.postgres.writes.test_erasure import MARK, fill
from tests.support.builders import TENANT, batch_of, segment

pytestmark = pytest.mark.postgres


@pytest.fixture
def server(short_directory: Path) -> EmbeddedPostgres:
    """A server whose files hold the rows of this test alone."""
    return EmbeddedPostgres(short_directory / "vacuumed", settings=QUICK)


@pytest.fixture
async def dsn(server: EmbeddedPostgres) -> AsyncIterator[str]:
    with server as dsn:
        await migrate(dsn)
        yield dsn


def files_with(text: str, server: EmbeddedPostgres) -> list[str]:
    """The files of the server that have the text, such as `base/5/2619`."""
    return [
        str(path.relative_to(server.data))
        for path in sorted(server.data.rglob("*"))
        if path.is_file() and text.encode() in path.read_bytes()
    ]


def folders(files: list[str]) -> set[str]:
    return {file.partition("/")[0] for file in files}


async def write_out(postgres: Postgres) -> None:
    """Writes all pages to the files, and reads statistics."""
    async with postgres.database.work() as connection:
        await connection.execute("ANALYZE")
        await connection.execute("CHECKPOINT")


async def test_no_file_holds_what_was_erased(server: EmbeddedPostgres, dsn: str) -> None:
    async with Postgres(dsn) as postgres:
        await fill(postgres, TENANT)
        await postgres.store.write(batch_of(segment("kept", "The boat is blue.")))
        await write_out(postgres)
        await postgres.store.erase(TENANT, Selector(speaker=f"{MARK} speaker"))
        await write_out(postgres)
        assert folders(files_with(MARK, server)) == {"base", "pg_wal"}

        result = await asyncio.to_thread(
            CliRunner().invoke, main, ["erasures", "vacuum"], env={"TRIVIUM_POSTGRES__DSN": dsn}
        )

        assert result.exit_code == 0, result.output
        assert "WAL: the files from before are removed" in result.output
        assert "change log: 2 erased items are named until" in result.output
        assert files_with(MARK, server) == []
        assert folders(files_with("blue", server)) == {"base"}


async def test_role_without_wal_permission_is_reported(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE owner LOGIN")
        connection.execute("CREATE DATABASE owned OWNER owner")
    owned = make_conninfo(dsn, user="owner", dbname="owned")
    await migrate(owned)

    done = await vacuum_tables(Database(owned))

    assert (done.warnings, done.wal_files, done.logged_until) == ([], None, None)
