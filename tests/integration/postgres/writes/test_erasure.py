"""Erased data is in no table."""

from __future__ import annotations

import pytest
from psycopg import sql

from serving.adapters.postgres.assembly import Postgres
from serving.domain.items.records import TenantName, fact_id, segment_id
from serving.ports.memory_store import Batch, Selector
from tests.integration.postgres.log.following import embed, scalar
from tests.support.builders import TENANT, batch_of, fact, segment

pytestmark = pytest.mark.postgres

OTHER = TenantName("other")
MARK = "xyzzy"


async def tables_with(postgres: Postgres, text: str) -> list[str]:
    """The tables with a row that contains the text."""
    async with postgres.database.work() as connection:
        cursor = await connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
        )
        tables = [row[0] for row in await cursor.fetchall()]
        found = []
        for table in tables:
            statement = sql.SQL("SELECT count(*) FROM {0} WHERE {0}::text LIKE %s").format(
                sql.Identifier(table)
            )
            cursor = await connection.execute(statement, [f"%{text}%"])
            if await cursor.fetchone() != (0,):
                found.append(table)
        return found


async def rows_of_key(postgres: Postgres, key: int) -> dict[str, int]:
    """The number of rows per table about the item with this key."""
    tables = ("segment", "fact", "embedding", "access_count", "dead_letter")
    async with postgres.database.work() as connection:
        return {
            table: await scalar(connection, f"SELECT count(*) FROM {table} WHERE key = {key}")
            for table in tables
        }


async def fill(postgres: Postgres, tenant: TenantName) -> None:
    """Stores a segment and a fact with rows in all tables."""
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
    about = fact("f", f"{MARK} subject", MARK, f"{MARK} object", evidence=("a",))
    await postgres.store.write(Batch(tenant, [marked, about]))
    await embed(postgres)
    postgres.access.record(tenant, [segment_id("a"), fact_id("f")])
    await postgres.access.flush()
    batch = await postgres.change_log.next_batch("graph", None, 10)
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
async def test_no_table_holds_anything_of_what_was_erased(
    postgres: Postgres, selector: Selector
) -> None:
    await fill(postgres, TENANT)
    assert await rows_of_key(postgres, 1) == {
        "segment": 1,
        "fact": 0,
        "embedding": 1,
        "access_count": 1,
        "dead_letter": 1,
    }

    await postgres.store.erase(TENANT, selector)

    assert await tables_with(postgres, MARK) == []
    for key in (1, 2):
        assert set((await rows_of_key(postgres, key)).values()) == {0}


async def test_an_erased_tenant_is_named_only_in_the_log(postgres: Postgres) -> None:
    await fill(postgres, TENANT)

    await postgres.store.erase(TENANT, Selector(everything=True))

    assert await tables_with(postgres, TENANT) == ["change_log"]


async def test_other_tenants_keep_all_they_have(postgres: Postgres) -> None:
    await fill(postgres, TENANT)
    await fill(postgres, OTHER)
    before = await rows_of_key(postgres, 3)

    await postgres.store.erase(TENANT, Selector(everything=True))

    assert await rows_of_key(postgres, 3) == before
    assert await postgres.store.count(OTHER, [segment_id("a"), fact_id("f")]) == 2
    assert len(await postgres.store.known_names(OTHER)) == 4


async def test_a_former_text_is_gone_with_its_vector(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a", f"{MARK} before")))
    await embed(postgres)

    await postgres.store.write(batch_of(segment("a", "after")))

    assert await tables_with(postgres, MARK) == []
    assert (await rows_of_key(postgres, 1))["embedding"] == 0


async def test_the_receipt_counts_what_each_table_lost(postgres: Postgres) -> None:
    await fill(postgres, TENANT)

    receipt = await postgres.store.erase(TENANT, Selector(everything=True))

    assert set(receipt.keys) == {1, 2}
    assert receipt.removed == {"embeddings": 2, "access_counts": 2, "dead_letters": 2}
    gone = await postgres.store.count_derived(receipt.keys)
    assert gone == {"embeddings": 0, "access_counts": 0, "dead_letters": 0}


async def test_rows_that_are_left_are_counted(postgres: Postgres) -> None:
    await fill(postgres, TENANT)

    left = await postgres.store.count_derived([1, 2])

    assert left == {"embeddings": 2, "access_counts": 2, "dead_letters": 2}
