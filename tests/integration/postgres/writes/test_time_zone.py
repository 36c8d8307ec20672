"""The time zone of a tenant: `python -m serving time-zone` and `mentions`."""

from __future__ import annotations

import asyncio
from datetime import UTC, timedelta
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner, Result

from serving.__main__ import main
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.notifications import Notifications
from serving.adapters.postgres.words.known_names import KnownNames
from serving.adapters.postgres.writes.memory_store import PostgresMemoryStore
from serving.domain.budget import Deadline
from serving.domain.items.records import Segment, segment_id
from tests.support.builders import NOON, TENANT, batch_of, segment

pytestmark = [pytest.mark.postgres, pytest.mark.without_row_security]


async def command(dsn: str, *words: str) -> Result:
    env = {"TRIVIUM_POSTGRES__DSN": dsn}
    return await asyncio.to_thread(CliRunner().invoke, main, words, env=env)


async def test_operator_moves_a_tenants_days(postgres: Postgres, postgres_dsn: str) -> None:
    await postgres.store.write(batch_of(segment("a", "The dentist is tomorrow.")))
    before = await postgres.store.read_time_zone(TENANT, Deadline.after(60))

    moved = await command(postgres_dsn, "time-zone", "--tenant", TENANT, "Asia/Kolkata")
    shown = await command(postgres_dsn, "time-zone", "--tenant", TENANT)
    read = await command(postgres_dsn, "mentions", "--tenant", TENANT)

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
    await postgres.store.write(batch_of(segment("a")))

    refused = await command(postgres_dsn, "time-zone", "--tenant", tenant, zone)

    assert refused.exit_code != 0
    assert reason in refused.output
