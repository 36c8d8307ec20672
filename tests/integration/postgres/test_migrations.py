"""Schema migrations."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.migrations import SCRIPTS, SchemaTooNewError, migrate
from serving.adapters.postgres.writes.erasure import erase_selected
from serving.desk.desk import require_schema
from serving.desk.ray_environment import DeskStartError
from serving.domain.errors import StoreUnavailableError
from serving.domain.items.records import segment_id
from serving.ports.memory_store import Selector
from tests.integration.postgres.log.following import (
    MODEL,
    embed,
    project_graph,
    run,
    waits_for_lock,
    write,
)
from tests.support.builders import TENANT, fact, segment
from tests.support.waiting import until_async

pytestmark = pytest.mark.postgres

NEWER = [*SCRIPTS, "ALTER TABLE segment ADD COLUMN seen int NOT NULL DEFAULT 0"]
"""The migrations of a program with one more."""


async def test_store_is_ready_after_several_processes_migrate(empty_dsn: str) -> None:
    async with Postgres(empty_dsn) as adapters:
        assert not await adapters.store.ready()
        with pytest.raises(StoreUnavailableError, match="schema"):
            await write(adapters, segment("a"))

        await asyncio.gather(*(migrate(empty_dsn) for _ in range(4)))

        assert await adapters.store.ready()
        assert (await write(adapters, segment("a"))).outcomes == ["created"]


def run_as_owner(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


async def test_older_schema_is_not_ready_unlike_newer(postgres: Postgres) -> None:
    await run(postgres, "UPDATE meta SET schema_version = schema_version - 1")
    assert not await postgres.store.ready()
    await run(postgres, "UPDATE meta SET schema_version = schema_version + 2")
    assert await postgres.store.ready()


async def test_migrating_again_changes_nothing(postgres: Postgres, postgres_dsn: str) -> None:
    before = await run(postgres, "SELECT * FROM meta")

    await migrate(postgres_dsn)

    assert await run(postgres, "SELECT * FROM meta") == before


async def test_a_schema_of_a_newer_program_is_rejected(postgres_dsn: str) -> None:
    run_as_owner(postgres_dsn, "UPDATE meta SET schema_version = 99")

    with pytest.raises(SchemaTooNewError, match="version 99"):
        await migrate(postgres_dsn)
    with pytest.raises(DeskStartError, match="schema has version 99, this program supports"):
        await asyncio.to_thread(require_schema, postgres_dsn)


async def test_database_restored_elsewhere_starts_a_new_log(
    postgres: Postgres, postgres_dsn: str
) -> None:
    first = await write(postgres, segment("a"), fact("f", "x", "y", "z"))
    await embed(postgres)
    await project_graph(postgres)
    run_as_owner(postgres_dsn, "UPDATE meta SET cluster_id = 1")

    await migrate(postgres_dsn)

    again = await write(postgres, segment("a"))
    assert again.outcomes == ["unchanged"]
    assert again.token.epoch != first.token.epoch
    assert again.token.xids.isdisjoint(first.token.xids)
    changes = await project_graph(postgres)
    assert (len(changes.segments), len(changes.facts)) == (1, 1)
    assert await embed(postgres, MODEL) == []  # the vectors came along


async def test_an_owner_without_privileges_can_migrate_and_work(
    postgres_server: str, empty_dsn: str
) -> None:
    run_as_owner(postgres_server, "CREATE ROLE owner LOGIN", "ALTER DATABASE empty OWNER TO owner")
    try:
        dsn = make_conninfo(empty_dsn, user="owner")
        await migrate(dsn)
        async with Postgres(dsn) as adapters:
            await write(adapters, segment("a"))

            assert [row.id for _, row in (await project_graph(adapters)).segments] == ["a"]
    finally:
        run_as_owner(postgres_server, "ALTER DATABASE empty OWNER TO postgres")
        run_as_owner(empty_dsn, "REASSIGN OWNED BY owner TO postgres")
        run_as_owner(postgres_server, "DROP ROLE owner")


async def test_schema_of_older_version_is_migrated(postgres: Postgres, postgres_dsn: str) -> None:
    await write(postgres, segment("a"))

    await migrate(postgres_dsn, NEWER)

    assert await run(postgres, "SELECT schema_version FROM meta") == [(len(NEWER),)]
    assert await run(postgres, "SELECT id, seen FROM segment") == [("a", 0)]


async def test_migration_gives_way_to_concurrent_writes(
    postgres: Postgres, postgres_dsn: str
) -> None:
    await write(postgres, segment("a"))
    async with postgres.database.transaction() as connection:
        # An erasure has locked segments, and not yet what is derived from them.
        await connection.execute("SELECT FROM segment FOR UPDATE")
        migrating = asyncio.create_task(migrate(postgres_dsn, NEWER))
        await until_async(lambda: waits_for_lock(postgres))
        written = await write(postgres, segment("b"))
        await erase_selected(connection, TENANT, Selector(items=(segment_id("a"),)))
    await migrating

    assert written.outcomes == ["created"]
    assert await run(postgres, "SELECT id, seen FROM segment") == [("b", 0)]
