"""Schema migrations."""

from __future__ import annotations

import asyncio
from importlib import resources

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.migrations import SchemaTooNewError, latest_version
from serving.adapters.postgres.migration import migrate
from serving.desk.desk import require_schema
from serving.desk.ray_environment import DeskStartError
from serving.domain.budget import Deadline
from serving.domain.errors import StoreUnavailableError
from serving.domain.items.records import Segment, fact_id
from serving.domain.questions.query import Filter
from serving.domain.ranking.leg_options import WordsSearch
from tests.integration.postgres.log.following import MODEL, embed, project_graph, scalar
from tests.support.builders import NOON, TENANT, batch_of, fact, ids, query, scope, segment

pytestmark = pytest.mark.postgres

PACKAGE = "serving.adapters.postgres.connection"


async def test_several_processes_may_migrate_at_once(empty_dsn: str) -> None:
    await asyncio.gather(*(migrate(empty_dsn) for _ in range(4)))

    async with Postgres(empty_dsn) as adapters:
        assert (await adapters.store.write(batch_of(segment("a")))).outcomes == ["created"]


async def test_store_without_schema_is_not_ready(empty_dsn: str) -> None:
    async with Postgres(empty_dsn) as adapters:
        assert not await adapters.store.ready()
        with pytest.raises(StoreUnavailableError, match="schema"):
            await adapters.store.write(batch_of(segment("a")))

        await migrate(empty_dsn)

        assert await adapters.store.ready()
        assert (await adapters.store.write(batch_of(segment("a")))).outcomes == ["created"]


async def test_older_schema_is_not_ready_unlike_newer(
    postgres: Postgres, postgres_dsn: str
) -> None:
    def schema_is_at(version: int) -> None:
        with psycopg.connect(postgres_dsn, autocommit=True) as connection:
            connection.execute("UPDATE meta SET schema_version = %s", [version])

    schema_is_at(latest_version() - 1)
    assert not await postgres.store.ready()
    schema_is_at(latest_version() + 1)
    assert await postgres.store.ready()


async def test_migrating_again_changes_nothing(postgres_dsn: str) -> None:
    def meta() -> tuple[object, ...] | None:
        with psycopg.connect(postgres_dsn) as connection:
            return connection.execute("SELECT * FROM meta").fetchone()

    before = meta()

    await migrate(postgres_dsn)

    assert meta() == before


async def test_a_schema_of_a_newer_program_is_rejected(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("UPDATE meta SET schema_version = 99")

    with pytest.raises(SchemaTooNewError, match="version 99"):
        await migrate(postgres_dsn)


def test_desk_rejects_the_schema_of_a_newer_program(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("UPDATE meta SET schema_version = 99")

    with pytest.raises(DeskStartError, match="schema has version 99, this program supports"):
        require_schema(postgres_dsn)


async def test_database_restored_elsewhere_starts_a_new_log(
    postgres: Postgres, postgres_dsn: str
) -> None:
    first = await postgres.store.write(batch_of(segment("a"), fact("f", "x", "y", "z")))
    await embed(postgres)
    await project_graph(postgres)
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("UPDATE meta SET cluster_id = 1")

    await migrate(postgres_dsn)

    again = await postgres.store.write(batch_of(segment("a")))
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
            await adapters.store.write(batch_of(segment("a")))

            assert [row.id for _, row in (await project_graph(adapters)).segments] == ["a"]
    finally:
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute("ALTER DATABASE empty OWNER TO postgres")
            with psycopg.connect(empty_dsn, autocommit=True) as within:
                within.execute("REASSIGN OWNED BY owner TO postgres")
            connection.execute("DROP ROLE owner")


async def test_counts_of_first_version_keep_their_tenant(empty_dsn: str) -> None:
    folder = resources.files("serving.adapters.postgres.connection") / "schema"
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute((folder / "0001_schema.sql").read_bytes())
    async with Postgres(empty_dsn) as adapters:
        async with adapters.database.work() as connection_:
            for tenant, names in ((TENANT, "abc"), ("other", "b")):
                await connection_.execute(
                    "INSERT INTO tenant (name, text_search_config) VALUES (%s, 'english')", [tenant]
                )
                await connection_.execute(
                    _SEGMENTS_OF_THE_FIRST_VERSION,
                    {"tenant": tenant, "ids": [*names], "noon": NOON},
                )
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

        counts = await adapters.access.shown_counts(TENANT, items, Deadline.after(60))
        recent = await adapters.access.recently_accessed(scope(), 10, Deadline.after(60))
        said = await adapters.timeline.latest(scope(), 10, Deadline.after(60))
        assert [counts.get(item, 0) for item in items] == [0, 7, 2]
        assert recent == ids("b", "a", "c")
        assert [candidate.item for candidate in said] == ids("a", "b", "c")
        by_words = await adapters.lexical.search(
            query("Voyage of Ann"), WordsSearch(speaker=0.5), 10, 10, Deadline.after(60)
        )
        assert {candidate.item for candidate in by_words} == {*ids("a", "b", "c")}
        again = await adapters.store.load(TENANT, ids("a"), Deadline.after(60))
        assert [row.keywords for row in again.values() if isinstance(row, Segment)] == [()]
        async with adapters.database.work() as connection_:
            assert await scalar(connection_, "SELECT schema_version FROM meta") == latest_version()
            unknown = "SELECT count(*) FROM access_count WHERE tenant_id IS NULL"
            assert await scalar(connection_, unknown) == 0


_SEGMENTS_OF_THE_FIRST_VERSION = """
INSERT INTO segment (tenant_id, id, text, title, kind, speaker, session, event_time, importance,
                     sensitive, labels, entities, entity, content_hash, text_hash, tags)
SELECT tenant.id, given.id, 'a voyage', '', 'turn', 'Ann', '',
       %(noon)s::timestamptz - given.place * interval '1 day', 0.5, false, '{}', '{}', '', '', '',
       '{}'
  FROM tenant, unnest(%(ids)s::text[]) WITH ORDINALITY AS given (id, place)
 WHERE tenant.name = %(tenant)s
"""

_A_FACT_OF_THE_FIRST_VERSION = """
INSERT INTO fact (tenant_id, id, subject, relation, object, sentence, recorded_at, evidence,
                  weight, sensitive, entity_keys, content_hash, text_hash)
SELECT tenant_id, 'a', 'x', 'y', 'z', '', now(), '{}', 1, false, '{x,z}', '', ''
  FROM segment WHERE id = 'c'
"""


async def test_labels_with_unescaped_keys_get_new_terms(empty_dsn: str) -> None:
    await migrate(empty_dsn)
    filter_ = Filter(labels={"a=b": ("c",)})
    async with Postgres(empty_dsn) as adapters:
        await adapters.store.write(
            batch_of(
                segment("meant", labels={"a=b": "c", "x": "1"}),
                segment("confused", labels={"a": "b=c"}),
                segment("plain", labels={"x": "1"}),
            )
        )
        await project_graph(adapters)
        with psycopg.connect(empty_dsn, autocommit=True) as connection:
            connection.execute(
                "UPDATE segment SET tags = (SELECT array_agg(replace(tag, '\\=', '=')) "
                "FROM unnest(tags) AS tag)"
            )
            script = resources.files(PACKAGE) / "schema" / "0006_label_terms.sql"
            connection.execute(script.read_bytes())

        listed = await adapters.catalog.list_segments(TENANT, filter_, "", 10)
        assert [each.id for each in listed] == ["meant"]
        assert [row.id for _, row in (await project_graph(adapters)).segments] == ["meant"]


async def test_stored_names_of_hidden_items_are_deleted(empty_dsn: str) -> None:
    await migrate(empty_dsn)
    async with Postgres(empty_dsn) as adapters:
        await adapters.store.write(
            batch_of(
                segment("hidden", entities=("Goa", "Rome"), sensitive=True),
                segment("shown", entities=("Rome",)),
                fact("f", "Ann", "likes", "Bob", evidence=("hidden",)),
                fact("g", "Cid", "likes", "Rome", evidence=("shown",)),
            )
        )
        with psycopg.connect(empty_dsn, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO entity (tenant_id, name_key, name) "
                "SELECT id, unnest('{goa,ann,bob,gone}'::text[]), 'as stored before' FROM tenant"
            )
            script = resources.files(PACKAGE) / "schema" / "0011_names.sql"
            connection.execute(script.read_bytes())

        assert (await adapters.store.known_names(TENANT)).keys() == {"rome", "cid"}
