"""After PostgreSQL's files were written anew, none holds what was erased."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.migrations import migrate
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.ports.memory_store import Selector
from tests.fixtures.postgres import QUICK
from tests.integration.postgres.backups.dumps import files_with, write_anew
from tests.integration.postgres.log.following import run, write
from tests.integration.postgres.writes.test_erasure import MARK, fill
from tests.support.builders import TENANT, segment

pytestmark = pytest.mark.postgres


def folders_with(text: str, server: EmbeddedPostgres) -> set[str]:
    """The folders of the server with files that have the text, such as `base`."""
    return {path.relative_to(server.data).parts[0] for path in files_with(text, server.data)}


async def write_out(postgres: Postgres) -> None:
    await run(postgres, "ANALYZE")
    await run(postgres, "CHECKPOINT")


async def test_no_file_holds_what_was_erased(short_directory: Path) -> None:
    server = EmbeddedPostgres(short_directory / "vacuumed", settings=QUICK)  # with no other rows
    with server as dsn:
        await migrate(dsn)
        async with Postgres(dsn) as postgres:
            await fill(postgres, TENANT)
            await write(postgres, segment("kept", "The boat is blue."))
            await write_out(postgres)
            await postgres.store.erase(TENANT, Selector(speaker=f"{MARK} speaker"))
            await write_out(postgres)
            assert folders_with(MARK, server) == {"base", "pg_wal"}

            await asyncio.to_thread(write_anew, dsn)

            assert files_with(MARK, server.data) == []
            assert folders_with("blue", server) == {"base"}
