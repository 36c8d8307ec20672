"""Closings of facts, and times that turns mention, in PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.notifications import Notifications
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.words.known_names import KnownNames
from serving.adapters.postgres.writes import mentions
from serving.adapters.postgres.writes.memory_store import PostgresMemoryStore
from serving.adapters.postgres.writes.mentions import read_mentions_again
from serving.domain.budget import Deadline
from serving.domain.items.period import Period
from serving.domain.items.records import Fact, ItemId, Segment, TenantName, fact_id, segment_id
from serving.domain.items.superseding import closings_of
from serving.domain.items.validity import Closing
from serving.ports.memory_store import Selector
from tests.integration.postgres.log.following import MODEL, bootstrap, embed, project_graph, write
from tests.support.builders import NOON, TENANT, days, fact, segment
from tests.support.commands import command

# So that the tests notice a statement without its tenant.
pytestmark = [pytest.mark.postgres, pytest.mark.without_row_security]


def home(id_: str, day: int, **fields: Any) -> Fact:
    """A single-valued fact: where Ann lives from a day on."""
    begins = {"valid_from": NOON + days(day), "single_valued": True}
    return fact(id_, "Ann", "lives in", "Goa", **{**begins, **fields})


async def closers(postgres: Postgres, tenant: TenantName = TENANT) -> dict[str, list[str]]:
    listed = await postgres.catalog.list_facts(tenant, (), None, "", 1000)
    return {found.id: [closing.by for closing in found.closings] for found in listed}


async def logged(postgres: Postgres) -> dict[ItemId, set[int]]:
    """The items that changed since the last call, with the transactions that changed them."""
    batch = await postgres.change_log.next_batch("graph", None, 1000)
    await postgres.change_log.advance("graph", None, batch.position)
    changed: dict[ItemId, set[int]] = {}
    for change in batch.changes:
        changed.setdefault(change.item, set()).add(change.xid)
    return changed


async def test_writers_side_by_side_leave_one_history(postgres: Postgres) -> None:
    facts = [home(f"{day}", day, single_valued=bool(day % 3)) for day in range(6)]
    facts.append(fact("named", "Bob", "met", "Cid", closes=("0", "3")))
    expected = {
        id_: [closing.by for closing in closings]
        for id_, closings in closings_of(facts, facts).items()
    }

    for number in range(20):
        tenant = TenantName(f"tenant {number}")
        await asyncio.gather(*(write(postgres, one, tenant=tenant) for one in facts))

        assert await closers(postgres, tenant) == expected


async def test_closing_by_id_stays_in_its_tenant(postgres: Postgres) -> None:
    # Each of three, since whichever row came last would decide.
    tenants = [TenantName(name) for name in ("one", "two", "three")]
    for name in tenants:
        homes = [replace(home(id_, day), subject=name) for id_, day in (("a", 0), ("b", 1))]
        await write(postgres, *homes, tenant=name)
    late = {"valid_from": NOON + days(2), "recorded_at": NOON + days(2)}
    for name in tenants:
        await write(postgres, fact("c", "Cid", "met", "Ann", closes=("a",), **late), tenant=name)

    for name in tenants:
        assert await closers(postgres, name) == {"a": ["b"], "b": [], "c": []}


async def test_closed_fact_is_logged_with_the_closing_fact(postgres: Postgres) -> None:
    await write(postgres, home("a", 0), fact("other", "Bob", "met", "Ann"))
    await logged(postgres)

    closed = {*(await write(postgres, home("b", 1))).token.xids}
    assert await logged(postgres) == {fact_id("a"): closed, fact_id("b"): closed}

    await write(postgres, home("b", 1), home("a", 0))
    assert await logged(postgres) == {}, "a repeat logs nothing"

    receipt = await postgres.store.erase(TENANT, Selector(items=(fact_id("b"),)))
    reopened = {*receipt.token.xids}
    assert await logged(postgres) == {fact_id("a"): reopened, fact_id("b"): reopened}


async def test_new_value_closes_only_the_previous_one(postgres: Postgres) -> None:
    for day in range(5):
        await write(postgres, home(f"{day}", day, recorded_at=NOON + days(day)))
    await logged(postgres)

    await write(postgres, home("5", 5, recorded_at=NOON + days(5)))

    assert (await logged(postgres)).keys() == {fact_id("4"), fact_id("5")}


async def test_the_projections_follow_a_closed_fact(postgres: Postgres) -> None:
    await write(postgres, home("a", 0))
    await embed(postgres)
    await project_graph(postgres)
    position, _ = await bootstrap(postgres)

    await write(postgres, home("b", 1, recorded_at=NOON + days(2)))
    changes = await project_graph(postgres)
    delta = await postgres.feed.changes_since(position, MODEL)
    _, all_rows = await bootstrap(postgres)

    (closed,) = (fact for _, fact in changes.facts if fact.id == "a")
    assert closed.closings == (Closing("b", NOON + days(1), NOON + days(2)),)
    for row in (*delta.rows, all_rows[TENANT, fact_id("a")]):
        assert (row.item, row.recorded_at, row.valid_to) == (fact_id("a"), NOON, None)
        assert (row.closings, row.final_end) == (closed.closings, NOON + days(1))


OTHER = TenantName("other")


def hours_to_come(text: str, said_at: datetime) -> list[Period]:
    starts = [said_at + timedelta(hours=hours) for hours in (1, 3)] if "soon" in text else []
    return [Period(start, start + timedelta(hours=1)) for start in starts]


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
    [day] = said.mentions
    assert day.begins == NOON.replace(hour=0) + timedelta(hours=18, minutes=30)


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
    turns.append(segment("none", "I like tea.", mentions=(Period(NOON, tomorrow),)))
    for tenant in (TENANT, OTHER):
        await write(postgres, *turns, tenant=tenant)
    before = await stored(postgres, TENANT)

    async with Database(postgres_dsn, work_connections=1, search_connections=1) as database:
        changed = await read_mentions_again(database, TENANT, hours_to_come)
        again = await read_mentions_again(database, TENANT, hours_to_come)

    after = await stored(postgres, TENANT)
    assert (changed, again) == (5, 0)
    assert after["t3"].mentions == tuple(hours_to_come("soon", NOON))
    assert after["none"].mentions == ()
    assert {id_: each.updated_at for id_, each in after.items()} == {
        id_: each.updated_at for id_, each in before.items()
    }
    assert (await stored(postgres, OTHER))["t3"].mentions == ()


async def stored(postgres: Postgres, tenant: TenantName) -> dict[str, Segment]:
    items = [segment_id(id_) for id_ in ("t0", "t1", "t2", "t3", "none")]
    rows = await postgres.store.load(tenant, items, Deadline.after(60))
    return {row.id: row for row in rows.values() if isinstance(row, Segment)}
