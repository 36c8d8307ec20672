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
from tests.integration.postgres.log.following import MODEL, embed, project_graph, run, write
from tests.support.builders import NOON, TENANT, fact, ids, query, scope, segment

pytestmark = pytest.mark.postgres


async def test_store_is_ready_after_several_processes_migrate(empty_dsn: str) -> None:
    async with Postgres(empty_dsn) as adapters:
        assert not await adapters.store.ready()
        with pytest.raises(StoreUnavailableError, match="schema"):
            await write(adapters, segment("a"))

        await asyncio.gather(*(migrate(empty_dsn) for _ in range(4)))

        assert await adapters.store.ready()
        assert (await write(adapters, segment("a"))).outcomes == ["created"]


def run_as_owner(dsn: str, *statements: str | bytes) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement if isinstance(statement, bytes) else statement.encode())


def script(name: str) -> bytes:
    folder = resources.files("serving.adapters.postgres.connection") / "schema"
    return (folder / f"{name}.sql").read_bytes()


async def test_older_schema_is_not_ready_unlike_newer(
    postgres: Postgres, postgres_dsn: str
) -> None:
    run_as_owner(postgres_dsn, "UPDATE meta SET schema_version = schema_version - 1")
    assert not await postgres.store.ready()
    run_as_owner(postgres_dsn, "UPDATE meta SET schema_version = schema_version + 2")
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


async def test_counts_of_first_version_keep_their_tenant(empty_dsn: str) -> None:
    run_as_owner(empty_dsn, script("0001_schema"))
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        for tenant, names in ((TENANT, "abc"), ("other", "b")):
            rows = {"tenant": tenant, "ids": [*names], "noon": NOON}
            connection.execute(_SEGMENTS_OF_THE_FIRST_VERSION, rows)
        connection.execute(_A_FACT_AND_COUNTS_OF_THE_FIRST_VERSION)
    items = [*ids("a", "b"), fact_id("a")]

    await migrate(empty_dsn)

    deadline = Deadline.after(60)
    async with Postgres(empty_dsn) as adapters:
        counts = await adapters.access.shown_counts(TENANT, items, deadline)
        recent = await adapters.access.recently_accessed(scope(), 10, deadline)
        said = await adapters.timeline.latest(scope(), 10, deadline)
        assert [counts.get(item, 0) for item in items] == [0, 7, 2]
        assert recent == ids("b", "a", "c")
        assert [candidate.item for candidate in said] == ids("a", "b", "c")
        by_words = await adapters.lexical.search(
            query("Voyage of Ann"), WordsSearch(speaker=0.5), 10, 10, deadline
        )
        assert {candidate.item for candidate in by_words} == {*ids("a", "b", "c")}
        again = await adapters.store.load(TENANT, ids("a"), deadline)
        assert [row.keywords for row in again.values() if isinstance(row, Segment)] == [()]
        assert await run(adapters, "SELECT schema_version FROM meta") == [(latest_version(),)]
        assert await run(adapters, "SELECT FROM access_count WHERE tenant_id IS NULL") == []


_SEGMENTS_OF_THE_FIRST_VERSION = """
WITH tenant AS (
    INSERT INTO tenant (name, text_search_config) VALUES (%(tenant)s, 'english') RETURNING id
)
INSERT INTO segment (tenant_id, id, text, title, kind, speaker, session, event_time, importance,
                     sensitive, labels, entities, entity, content_hash, text_hash, tags)
SELECT tenant.id, given.id, 'a voyage', '', 'turn', 'Ann', '',
       %(noon)s::timestamptz - given.place * interval '1 day', 0.5, false, '{}', '{}', '', '', '',
       '{}'
  FROM tenant, unnest(%(ids)s::text[]) WITH ORDINALITY AS given (id, place)
"""

_A_FACT_AND_COUNTS_OF_THE_FIRST_VERSION = """
INSERT INTO fact (tenant_id, id, subject, relation, object, sentence, recorded_at, evidence,
                  weight, sensitive, entity_keys, content_hash, text_hash)
SELECT tenant_id, 'a', 'x', 'y', 'z', '', now(), '{}', 1, false, '{x,z}', '', ''
  FROM segment WHERE id = 'c';
INSERT INTO access_count (key, shown, last_shown)
SELECT key, 7, now() FROM segment WHERE id = 'b' UNION ALL SELECT key, 2, now() FROM fact
"""


async def test_labels_with_unescaped_keys_get_new_terms(
    postgres: Postgres, postgres_dsn: str
) -> None:
    await write(
        postgres,
        segment("meant", labels={"a=b": "c", "x": "1"}),
        segment("confused", labels={"a": "b=c"}),
        segment("plain", labels={"x": "1"}),
    )
    await project_graph(postgres)
    run_as_owner(
        postgres_dsn,
        "UPDATE segment SET tags = (SELECT array_agg(replace(tag, '\\=', '=')) "
        "FROM unnest(tags) AS tag)",
        script("0006_label_terms"),
    )

    filter_ = Filter(labels={"a=b": ("c",)})
    listed = await postgres.catalog.list_segments(TENANT, filter_, "", 10)
    assert [each.id for each in listed] == ["meant"]
    assert [row.id for _, row in (await project_graph(postgres)).segments] == ["meant"]


async def test_stored_names_of_hidden_items_are_deleted(
    postgres: Postgres, postgres_dsn: str
) -> None:
    await write(
        postgres,
        segment("hidden", entities=("Goa", "Rome"), sensitive=True),
        segment("shown", entities=("Rome",)),
        fact("f", "Ann", "likes", "Bob", evidence=("hidden",)),
        fact("g", "Cid", "likes", "Rome", evidence=("shown",)),
    )
    run_as_owner(
        postgres_dsn,
        "INSERT INTO entity (tenant_id, name_key, name) "
        "SELECT id, unnest('{goa,ann,bob,gone}'::text[]), 'as stored before' FROM tenant",
        script("0011_names"),
    )

    assert (await postgres.store.known_names(TENANT)).keys() == {"rome", "cid"}
