"""Erased data is in no table."""

from __future__ import annotations

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.domain.items.records import Item, TenantName, fact_id, segment_id
from serving.ports.memory_store import Selector
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


async def test_the_receipt_counts_what_each_table_lost(postgres: Postgres) -> None:
    each = {"embeddings": 2, "access_counts": 2, "dead_letters": 2}
    await fill(postgres, TENANT)
    assert await postgres.store.count_derived([1, 2]) == each

    receipt = await postgres.store.erase(TENANT, Selector(everything=True))

    assert set(receipt.keys) == {1, 2}
    assert receipt.removed == each
    assert await postgres.store.count_derived(receipt.keys) == dict.fromkeys(each, 0)
