"""Bringing a database up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib import resources

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.migrations import SchemaTooNewError, latest_version, migrate
from serving.domain.budget import Deadline
from serving.domain.errors import StoreUnavailableError
from serving.domain.records import TenantName, fact_id
from tests.builders import NOON, TENANT, days, fact, ids, scope, segment
from tests.integration.postgres.following import MODEL, embed, project_graph, scalar

pytestmark = pytest.mark.postgres


@pytest.fixture
def empty_dsn(postgres_server: str) -> Iterator[str]:
    """The DSN of a database with nothing in it."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE empty")
        yield make_conninfo(postgres_server, dbname="empty")
        connection.execute("DROP DATABASE empty WITH (FORCE)")


async def test_several_processes_may_migrate_at_once(empty_dsn: str) -> None:
    await asyncio.gather(*(migrate(empty_dsn) for _ in range(4)))

    async with Postgres(empty_dsn) as adapters:
        assert (await adapters.store.write(TENANT, [segment("a")])).outcomes == ["created"]


async def test_without_the_schema_the_store_is_not_ready_and_says_why(empty_dsn: str) -> None:
    async with Postgres(empty_dsn) as adapters:
        assert not await adapters.store.ready()
        with pytest.raises(StoreUnavailableError, match="schema"):
            await adapters.store.write(TENANT, [segment("a")])

        await migrate(empty_dsn)

        assert await adapters.store.ready()
        assert (await adapters.store.write(TENANT, [segment("a")])).outcomes == ["created"]


async def test_an_older_schema_is_not_ready_and_a_newer_one_is(
    postgres: Postgres, postgres_dsn: str
) -> None:
    def schema_is_at(version: int) -> None:
        with psycopg.connect(postgres_dsn, autocommit=True) as connection:
            connection.execute("UPDATE meta SET schema_version = %s", [version])

    schema_is_at(latest_version() - 1)
    assert not await postgres.store.ready()
    schema_is_at(latest_version() + 1)
    assert await postgres.store.ready()


async def test_migrating_again_changes_nothing(postgres: Postgres, postgres_dsn: str) -> None:
    epoch = await postgres.consistency.epoch()

    await migrate(postgres_dsn)

    assert await postgres.consistency.epoch() == epoch


async def test_a_schema_of_a_newer_program_is_refused(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("UPDATE meta SET schema_version = 99")

    with pytest.raises(SchemaTooNewError, match="version 99"):
        await migrate(postgres_dsn)


async def test_the_log_starts_anew_in_a_database_restored_elsewhere(
    postgres: Postgres, postgres_dsn: str
) -> None:
    first = await postgres.store.write(TENANT, [segment("a"), fact("f", "x", "y", "z")])
    await embed(postgres)
    await project_graph(postgres)
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("UPDATE meta SET cluster_id = 1")

    await migrate(postgres_dsn)

    again = await postgres.store.write(TENANT, [segment("a")])
    assert again.outcomes == ["unchanged"]
    assert again.token.epoch != first.token.epoch
    assert again.token.xids.isdisjoint(first.token.xids)
    changes = await project_graph(postgres)
    assert (len(changes.segments), len(changes.facts)) == (1, 1)
    assert await embed(postgres, MODEL) == []  # the vectors came along


async def test_an_owner_without_privileges_can_migrate_and_work(
    postgres_server: str, empty_dsn: str
) -> None:
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("CREATE ROLE owner LOGIN")
        connection.execute("ALTER DATABASE empty OWNER TO owner")
    try:
        dsn = make_conninfo(empty_dsn, user="owner")
        await migrate(dsn)
        async with Postgres(dsn) as adapters:
            await adapters.store.write(TENANT, [segment("a")])

            assert [row.segment.id for row in (await project_graph(adapters)).segments] == ["a"]
    finally:
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute("ALTER DATABASE empty OWNER TO postgres")
            with psycopg.connect(empty_dsn, autocommit=True) as within:
                within.execute("REASSIGN OWNED BY owner TO postgres")
            connection.execute("DROP ROLE owner")


async def test_counts_of_the_first_version_are_found_by_their_tenant(empty_dsn: str) -> None:
    folder = resources.files("serving.adapters.postgres") / "migrations"
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute((folder / "0001_schema.sql").read_bytes())
    async with Postgres(empty_dsn) as adapters:
        written = [segment(name, event_time=NOON - days(place)) for place, name in enumerate("abc")]
        await adapters.store.write(TENANT, written)
        await adapters.store.write(TenantName("other"), [segment("b")])
        async with adapters.database.work() as connection_:
            await connection_.execute(_A_FACT_OF_THE_FIRST_VERSION)
            await connection_.execute(
                """
                INSERT INTO access_count (key, shown, last_shown)
                SELECT key, 7, now() FROM segment WHERE id = 'b'
                 UNION ALL SELECT key, 2, now() FROM fact
                """
            )
        items = [*ids("a", "b"), fact_id("a")]

        await migrate(empty_dsn)

        counts = await adapters.access.shown_counts(TENANT, items, Deadline.after(10))
        recent = await adapters.access.recently_accessed(scope(), 10, Deadline.after(10))
        said = await adapters.timeline.latest(scope(), 10, Deadline.after(10))
        assert [counts.get(item, 0) for item in items] == [0, 7, 2]
        assert recent == ids("b", "a", "c")
        assert [candidate.item for candidate in said] == ids("a", "b", "c")
        async with adapters.database.work() as connection_:
            assert await scalar(connection_, "SELECT schema_version FROM meta") == latest_version()
            unknown = "SELECT count(*) FROM access_count WHERE tenant_id IS NULL"
            assert await scalar(connection_, unknown) == 0


_A_FACT_OF_THE_FIRST_VERSION = """
INSERT INTO fact (tenant_id, id, subject, relation, object, sentence, recorded_at, evidence,
                  weight, sensitive, entity_keys, content_hash, text_hash)
SELECT tenant_id, 'a', 'x', 'y', 'z', '', now(), '{}', 1, false, '{x,z}', '', ''
  FROM segment WHERE id = 'c'
"""
