"""After PostgreSQL's files were written anew, none holds what was erased."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.migration import migrate
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.ports.memory_store import Selector
from tests.fixtures.postgres import QUICK
from tests.integration.postgres.backups.dumps import write_anew
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

        await asyncio.to_thread(write_anew, dsn)

        assert files_with(MARK, server) == []
        assert folders(files_with("blue", server)) == {"base"}
