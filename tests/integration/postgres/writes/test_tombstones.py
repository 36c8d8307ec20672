"""What was erased stays erased after the restore of an older backup."""

from __future__ import annotations

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.writes.tombstones import Tombstones, erase_again, read_tombstones
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemId, TenantName, fact_id, segment_id
from serving.ports.memory_store import Selector
from tests.integration.postgres.log.following import run, write
from tests.integration.postgres.writes.test_erasure import MARK, tables_with
from tests.support.builders import TENANT, fact, segment

pytestmark = pytest.mark.postgres

OTHER = TenantName("other")
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


async def fill(postgres: Postgres) -> None:
    marked = segment("a", MARK, speaker=MARK, entities=(MARK,))
    rests = fact("f", MARK, "is", MARK, evidence=("a",))
    rests_on_both = fact("g", "x", "is", "y", evidence=("a", "b"))
    for tenant in (TENANT, OTHER):
        await write(postgres, marked, segment("b"), rests, rests_on_both, tenant=tenant)


async def erased(postgres: Postgres, selector: Selector) -> Tombstones:
    """What is exported after an erasure that the restored database does not know of."""
    await fill(postgres)
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
    await fill(postgres)
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
    await fill(postgres)
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
