"""The times that stored segments speak of, read again."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.writes import mentions
from serving.adapters.postgres.writes.mentions import Mention, read_mentions_again
from serving.domain.budget import Deadline
from serving.domain.items.records import Segment, TenantName, segment_id
from serving.ports.memory_store import Batch
from tests.support.builders import NOON, TENANT, segment

pytestmark = [pytest.mark.postgres, pytest.mark.without_row_security]

OTHER = TenantName("other")


def next_hour(text: str, said_at: datetime) -> Mention | None:
    """What is said about soon is about the next hour."""
    return (said_at, said_at + timedelta(hours=1)) if "soon" in text else None


async def test_mentions_of_one_tenant_are_read_again(
    postgres: Postgres, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mentions, "BATCH_SEGMENTS", 2)
    tomorrow = NOON + timedelta(days=1)
    turns = [segment(f"t{n}", f"I come soon, {n}.") for n in range(4)]
    turns.append(segment("none", "I like tea.", mentions_from=NOON, mentions_to=tomorrow))
    for tenant in (TENANT, OTHER):
        await postgres.store.write(Batch(tenant, turns))
    before = await stored(postgres, TENANT)

    async with Database(postgres_dsn, work_connections=1, search_connections=1) as database:
        changed = await read_mentions_again(database, TENANT, next_hour)
        again = await read_mentions_again(database, TENANT, next_hour)

    after = await stored(postgres, TENANT)
    assert (changed, again) == (5, 0)
    assert after["t3"].mentions_to == NOON + timedelta(hours=1)
    assert after["none"].mentions_from is None
    assert {id_: each.updated_at for id_, each in after.items()} == {
        id_: each.updated_at for id_, each in before.items()
    }
    assert (await stored(postgres, OTHER))["t3"].mentions_from is None


async def stored(postgres: Postgres, tenant: TenantName) -> dict[str, Segment]:
    items = [segment_id(id_) for id_ in ("t0", "t1", "t2", "t3", "none")]
    rows = await postgres.store.load(tenant, items, Deadline.after(60))
    return {row.id: row for row in rows.values() if isinstance(row, Segment)}
