"""Counting what was shown."""

from __future__ import annotations

import pytest

from serving.adapters.postgres.access import PostgresAccessCounter
from serving.adapters.postgres.assembly import Postgres
from serving.domain.records import TenantName, fact_id
from tests.builders import TENANT, fact, ids, segment
from tests.integration.postgres.following import scalar

pytestmark = pytest.mark.postgres

OTHER = TenantName("other")


async def counts(postgres: Postgres) -> dict[str, int]:
    """How often each item was shown, as "tenant/id"."""
    async with postgres.database.work() as connection:
        cursor = await connection.execute(
            """
            SELECT tenant.name || '/' || item.id, shown
              FROM access_count
              JOIN (SELECT key, tenant_id, id FROM segment
                     UNION ALL SELECT key, tenant_id, id FROM fact) AS item USING (key)
              JOIN tenant ON tenant.id = item.tenant_id
            """
        )
        return dict(await cursor.fetchall())


async def test_accesses_add_up_by_tenant_and_item(postgres: Postgres) -> None:
    for tenant in (TENANT, OTHER):
        await postgres.store.write(tenant, [segment("a"), fact("f", "x", "y", "z")])

    postgres.access.record(TENANT, [*ids("a", "a"), fact_id("f")])
    await postgres.access.flush()
    postgres.access.record(TENANT, ids("a", "unknown"))
    postgres.access.record(OTHER, ids("a"))
    await postgres.access.flush()

    assert await counts(postgres) == {"acme/a": 3, "acme/f": 1, "other/a": 1}


async def test_what_is_left_is_stored_at_the_end(postgres: Postgres) -> None:
    await postgres.store.write(TENANT, [segment("a")])
    counter = PostgresAccessCounter(postgres.database)
    await counter.open()
    counter.record(TENANT, ids("a"))

    await counter.close()

    assert await counts(postgres) == {"acme/a": 1}


async def test_memory_for_counts_is_bounded(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.adapters.postgres.access.MOST_PENDING", 1)
    await postgres.store.write(TENANT, [segment("a"), segment("b")])

    postgres.access.record(TENANT, ids("a", "b", "a"))
    await postgres.access.flush()

    assert await counts(postgres) == {"acme/a": 2}
    assert postgres.access.dropped == 1


async def test_an_idle_counter_writes_nothing(postgres: Postgres) -> None:
    await postgres.access.flush()

    async with postgres.database.work() as connection:
        assert await scalar(connection, "SELECT count(*) FROM access_count") == 0
