"""The times that segments speak of, read again, as after a move to another time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.notifications import Notifications
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.words.known_names import KnownNames
from serving.adapters.postgres.writes import mentions
from serving.adapters.postgres.writes.memory_store import PostgresMemoryStore
from serving.adapters.postgres.writes.mentions import Mention, read_mentions_again
from serving.domain.budget import Deadline
from serving.domain.items.records import Segment, TenantName, segment_id
from tests.integration.postgres.log.following import write
from tests.support.builders import NOON, TENANT, segment
from tests.support.commands import command

pytestmark = [pytest.mark.postgres, pytest.mark.without_row_security]

OTHER = TenantName("other")


def next_hour(text: str, said_at: datetime) -> Mention | None:
    """What is said about soon is about the next hour."""
    return (said_at, said_at + timedelta(hours=1)) if "soon" in text else None


async def test_operator_moves_a_tenants_days(postgres: Postgres, postgres_dsn: str) -> None:
    await write(postgres, segment("a", "The dentist is tomorrow."))
    before = await postgres.store.read_time_zone(TENANT, Deadline.after(60))

    moved = await command("time-zone", "--tenant", TENANT, "Asia/Kolkata", dsn=postgres_dsn)
    shown = await command("time-zone", "--tenant", TENANT, dsn=postgres_dsn)
    read = await command("mentions", "--tenant", TENANT, dsn=postgres_dsn)

    notifications = Notifications(postgres.database)
    names = KnownNames(postgres.database, notifications)
    elsewhere = PostgresMemoryStore(postgres.database, notifications, names)
    assert (before, moved.exit_code, read.exit_code) == (UTC, 0, 0)
    assert shown.output == f"{TENANT}: Asia/Kolkata\n"
    assert await elsewhere.read_time_zone(TENANT, Deadline.after(60)) == ZoneInfo("Asia/Kolkata")
    said = (await elsewhere.load(TENANT, [segment_id("a")], Deadline.after(60)))[segment_id("a")]
    assert isinstance(said, Segment)
    assert said.mentions_from == NOON.replace(hour=0) + timedelta(hours=18, minutes=30)


@pytest.mark.parametrize(
    ("tenant", "zone", "reason"),
    [("nobody", "Asia/Kolkata", "no tenant 'nobody'"), (TENANT, "Mars", "must be a time zone")],
)
async def test_wrong_zone_or_tenant_is_refused(
    postgres: Postgres, postgres_dsn: str, tenant: str, zone: str, reason: str
) -> None:
    await write(postgres, segment("a"))

    refused = await command("time-zone", "--tenant", tenant, zone, dsn=postgres_dsn)

    assert refused.exit_code != 0
    assert reason in refused.output


async def test_mentions_of_one_tenant_are_read_again(
    postgres: Postgres, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mentions, "BATCH_SEGMENTS", 2)
    tomorrow = NOON + timedelta(days=1)
    turns = [segment(f"t{n}", f"I come soon, {n}.") for n in range(4)]
    turns.append(segment("none", "I like tea.", mentions_from=NOON, mentions_to=tomorrow))
    for tenant in (TENANT, OTHER):
        await write(postgres, *turns, tenant=tenant)
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
