"""Erased data is in no table and no file, and stays erased after the restore of an older backup."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.migrations import migrate
from serving.adapters.postgres.writes.tombstones import Tombstones, erase_again, read_tombstones
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.domain.budget import Deadline
from serving.domain.items.records import Item, ItemId, TenantName, fact_id, segment_id
from serving.ports.memory_store import Selector
from tests.fixtures.postgres import QUICK
from tests.integration.postgres.backups.test_restore import files_with, write_anew
from tests.integration.postgres.log.following import embed, run, write
from tests.support.builders import TENANT, fact, segment

pytestmark = pytest.mark.postgres


OTHER = TenantName("other")
MARK = "xyzzy"


async def tables_with(postgres: Postgres, text: str) -> list[str]:
    """The tables with a row that contains the text."""
    listed = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
    return [
        table
        for (table,) in await run(postgres, listed)
        if await run(postgres, f"SELECT FROM {table} WHERE {table}::text LIKE %s", f"%{text}%")
    ]


async def rows_of_key(postgres: Postgres, key: int) -> dict[str, int]:
    """The number of rows per table about the item with this key."""
    tables = ("segment", "fact", "embedding", "access_count", "dead_letter")
    return {
        table: len(await run(postgres, f"SELECT FROM {table} WHERE key = {key}"))
        for table in tables
    }


def marked_items() -> list[Item]:
    """A segment with a mark in each field, and a fact that rests on it."""
    marked = segment(
        "a",
        f"{MARK} text",
        title=f"{MARK} title",
        speaker=f"{MARK} speaker",
        session=f"{MARK} session",
        labels={"label": MARK},
        entities=(f"{MARK} name",),
        entity=f"{MARK} entity",
    )
    return [marked, fact("f", f"{MARK} subject", MARK, f"{MARK} object", evidence=("a",))]


async def fill(postgres: Postgres, tenant: TenantName) -> None:
    """Stores a segment and a fact with rows in all tables."""
    await write(postgres, *marked_items(), tenant=tenant)
    await embed(postgres)
    await leave_traces(postgres, tenant)


async def leave_traces(postgres: Postgres, tenant: TenantName) -> None:
    """Stores accesses of the marked items, and dead letters of all."""
    postgres.access.record(tenant, [segment_id("a"), fact_id("f")])
    await postgres.access.flush()
    batch = await postgres.change_log.next_batch("embedding", None, 10)
    for change in batch.changes:
        await postgres.change_log.dead_letter("graph", None, change, MARK)


@pytest.mark.parametrize(
    "selector",
    [
        Selector(items=(segment_id("a"),)),
        Selector(session=f"{MARK} session"),
        Selector(speaker=f"{MARK} speaker"),
        Selector(everything=True),
    ],
    ids=["ids", "session", "speaker", "everything"],
)
async def test_no_table_holds_erased_values(postgres: Postgres, selector: Selector) -> None:
    await fill(postgres, TENANT)
    assert [*(await rows_of_key(postgres, 1)).values()] == [1, 0, 1, 1, 1]

    await postgres.store.erase(TENANT, selector)

    assert await tables_with(postgres, MARK) == []
    for key in (1, 2):
        assert set((await rows_of_key(postgres, key)).values()) == {0}


async def test_erased_tenant_is_logged_while_others_keep_all(postgres: Postgres) -> None:
    await fill(postgres, TENANT)
    await fill(postgres, OTHER)
    before = await rows_of_key(postgres, 3)

    await postgres.store.erase(TENANT, Selector(everything=True))

    assert await tables_with(postgres, TENANT) == ["change_log"]
    assert await rows_of_key(postgres, 3) == before
    assert await postgres.store.count(OTHER, [segment_id("a"), fact_id("f")]) == 2
    assert len(await postgres.store.known_names(OTHER)) == 4


async def test_a_former_text_is_gone_with_its_vector(postgres: Postgres) -> None:
    await write(postgres, segment("a", f"{MARK} before"))
    await embed(postgres)

    await write(postgres, segment("a", "after"))

    assert await tables_with(postgres, MARK) == []
    assert (await rows_of_key(postgres, 1))["embedding"] == 0


async def test_receipt_counts_removed_rows_of_each_table(postgres: Postgres) -> None:
    each = {"embeddings": 2, "access_counts": 2, "dead_letters": 2}
    await fill(postgres, TENANT)
    assert await postgres.store.count_derived([1, 2]) == each

    receipt = await postgres.store.erase(TENANT, Selector(everything=True))

    assert set(receipt.keys) == {1, 2}
    assert receipt.removed == each
    assert await postgres.store.count_derived(receipt.keys) == dict.fromkeys(each, 0)


RESTORED = ("tenant", "segment", "fact", "entity")


async def backup(postgres: Postgres) -> None:
    async with postgres.database.transaction() as connection:
        for table in RESTORED:
            await connection.execute(f"CREATE TABLE backup_{table} AS TABLE {table}")


async def restore(postgres: Postgres) -> None:
    """Puts the database into the state of the copy, which knows of no erasure."""
    async with postgres.database.transaction() as connection:
        await connection.execute("TRUNCATE tenant, segment, fact, entity, change_log, extraction")
        await connection.execute("TRUNCATE tombstone")
        for table in RESTORED:
            await connection.execute(
                f"INSERT INTO {table} OVERRIDING SYSTEM VALUE TABLE backup_{table}"
            )


async def stored(postgres: Postgres, tenant: TenantName = TENANT) -> set[ItemId]:
    names = [segment_id("a"), segment_id("b"), fact_id("f"), fact_id("g")]
    return set(await postgres.store.load(tenant, names, Deadline.after(60)))


async def fill_both(postgres: Postgres) -> None:
    marked = segment("a", MARK, speaker=MARK, entities=(MARK,))
    rests = fact("f", MARK, "is", MARK, evidence=("a",))
    rests_on_both = fact("g", "x", "is", "y", evidence=("a", "b"))
    for tenant in (TENANT, OTHER):
        await write(postgres, marked, segment("b"), rests, rests_on_both, tenant=tenant)


async def erased(postgres: Postgres, selector: Selector) -> Tombstones:
    """What is exported after an erasure that the restored database does not know of."""
    await fill_both(postgres)
    await backup(postgres)
    await postgres.store.erase(TENANT, selector)
    exported = await read_tombstones(postgres.database)
    await restore(postgres)
    return exported


async def test_erased_items_are_erased_after_a_restore(postgres: Postgres) -> None:
    exported = await erased(postgres, Selector(items=(segment_id("a"),)))
    assert segment_id("a") in await stored(postgres)

    assert await erase_again(postgres.database, exported) == 2

    assert await stored(postgres) == {segment_id("b"), fact_id("g")}
    rows = await postgres.store.load(TENANT, [fact_id("g")], Deadline.after(60))
    assert getattr(rows[fact_id("g")], "evidence", None) == ("b",)
    assert len(await stored(postgres, OTHER)) == 4
    assert await erase_again(postgres.database, exported) == 0


async def test_a_tenant_stays_erased(postgres: Postgres) -> None:
    exported = await erased(postgres, Selector(everything=True))

    await erase_again(postgres.database, exported)

    assert await stored(postgres) == set()
    assert len(await stored(postgres, OTHER)) == 4


async def test_item_rewritten_after_its_erasure_stays(postgres: Postgres) -> None:
    await fill_both(postgres)
    await postgres.store.erase(TENANT, Selector(items=(segment_id("a"),)))
    await write(postgres, segment("a", "written again"))
    await backup(postgres)
    exported = await read_tombstones(postgres.database)
    await restore(postgres)

    assert await erase_again(postgres.database, exported) == 0

    assert segment_id("a") in await stored(postgres)


async def test_tombstones_show_neither_ids_nor_texts_nor_tenants(postgres: Postgres) -> None:
    marked = segment(MARK, MARK, speaker=MARK, entities=(MARK,))
    await write(postgres, marked, tenant=TenantName(MARK))

    await postgres.store.erase(TenantName(MARK), Selector(everything=True))

    exported = await read_tombstones(postgres.database)
    assert len(exported.entries) == 1
    assert MARK.encode() not in exported.key + exported.entries[0][0]
    assert await tables_with(postgres, MARK) == ["change_log"]


async def test_the_tombstones_of_a_file_are_in_the_next_export(postgres: Postgres) -> None:
    await fill_both(postgres)
    await postgres.store.erase(TENANT, Selector(everything=True))
    exported = await read_tombstones(postgres.database)
    await run(postgres, "TRUNCATE tombstone")

    await erase_again(postgres.database, exported)

    assert await read_tombstones(postgres.database) == exported


async def test_tombstones_of_another_database_are_only_applied(postgres: Postgres) -> None:
    async def hashes() -> set[bytes]:
        return {hash_ for hash_, _ in (await read_tombstones(postgres.database)).entries}

    exported = await erased(postgres, Selector(items=(segment_id("a"),)))
    await run(postgres, "UPDATE meta SET tombstone_key = 'another'")
    await postgres.store.erase(OTHER, Selector(items=(segment_id("b"),)))
    own = await hashes()

    assert await erase_again(postgres.database, exported) == 2

    assert segment_id("a") not in await stored(postgres)
    assert not await hashes() & {hash_ for hash_, _ in exported.entries}
    assert own < await hashes()


async def test_a_database_without_tombstones_takes_the_key_of_a_file(postgres: Postgres) -> None:
    await erase_again(postgres.database, Tombstones(b"key", []))

    assert (await read_tombstones(postgres.database)).key == b"key"


def folders_with(text: str, server: EmbeddedPostgres) -> set[str]:
    """The folders of the server with files that have the text, such as `base`."""
    return {path.relative_to(server.data).parts[0] for path in files_with(text, server.data)}


async def write_out(postgres: Postgres) -> None:
    await run(postgres, "ANALYZE")
    await run(postgres, "CHECKPOINT")


async def test_no_file_holds_erased_texts(short_directory: Path) -> None:
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
