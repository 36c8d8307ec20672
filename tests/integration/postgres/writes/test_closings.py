"""Closings in PostgreSQL: concurrent writers, rows of previous versions, the log."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.domain.items.records import Fact, ItemId, TenantName, fact_id
from serving.domain.items.superseding import closings_of
from serving.domain.items.validity import Closing
from serving.ports.memory_store import Batch, Selector
from tests.integration.postgres.log.following import MODEL, bootstrap, embed, items, project_graph
from tests.support.builders import NOON, TENANT, batch_of, days, fact

# So that the tests notice a statement without its tenant.
pytestmark = [pytest.mark.postgres, pytest.mark.without_row_security]


def home(id_: str, day: int, **fields: Any) -> Fact:
    """A single-valued fact: where Ann lives from a day on."""
    begins = {"valid_from": NOON + days(day), "single_valued": True}
    return fact(id_, "Ann", "lives in", "Goa", **{**begins, **fields})


async def closers(postgres: Postgres, tenant: TenantName = TENANT) -> dict[str, list[str]]:
    """The ids of the facts that closed each fact."""
    listed = await postgres.catalog.list_facts(tenant, (), None, "", 1000)
    return {found.id: [closing.by for closing in found.closings] for found in listed}


async def logged(postgres: Postgres) -> list[ItemId]:
    """The changes since the last call."""
    batch = await postgres.change_log.next_batch("graph", None, 1000)
    await postgres.change_log.advance("graph", None, batch.position)
    return sorted(items(batch))


async def test_writers_side_by_side_leave_one_history(postgres: Postgres) -> None:
    facts = [home(f"{day}", day, single_valued=bool(day % 3)) for day in range(6)]
    facts.append(fact("named", "Bob", "met", "Cid", closes=("0", "3")))
    expected = {
        id_: [closing.by for closing in closings]
        for id_, closings in closings_of(facts, facts).items()
    }

    for number in range(20):
        tenant = TenantName(f"tenant {number}")
        await asyncio.gather(*(postgres.store.write(Batch(tenant, [one])) for one in facts))

        assert await closers(postgres, tenant) == expected


async def test_rows_of_a_former_version_are_closed_too(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(home("old", 0, single_valued=False)))
    async with postgres.database.work() as connection:
        await connection.execute("UPDATE fact SET topic = NULL")

    await postgres.store.write(batch_of(home("new", 1)))

    assert await closers(postgres) == {"new": [], "old": ["new"]}


async def test_rows_of_a_former_version_are_of_one_tenant(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(fact("old", "Bob", "likes", "tea")))
    await postgres.store.write(Batch(TenantName("other"), [home("old", 0, single_valued=False)]))
    async with postgres.database.work() as connection:
        await connection.execute("UPDATE fact SET topic = NULL")

    await postgres.store.write(batch_of(home("new", 1)))

    assert await closers(postgres) == {"new": [], "old": []}


async def test_closing_by_id_stays_in_its_tenant(postgres: Postgres) -> None:
    # Each of three, since whichever row came last would decide.
    tenants = [TenantName(name) for name in ("one", "two", "three")]
    for name in tenants:
        homes = [replace(home(id_, day), subject=name) for id_, day in (("a", 0), ("b", 1))]
        await postgres.store.write(Batch(name, homes))
    late = {"valid_from": NOON + days(2), "recorded_at": NOON + days(2)}
    for name in tenants:
        await postgres.store.write(
            Batch(name, [fact("c", "Cid", "met", "Ann", closes=("a",), **late)])
        )

    for name in tenants:
        assert await closers(postgres, name) == {"a": ["b"], "b": [], "c": []}


async def test_a_closed_fact_is_logged_with_what_closed_it(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(home("a", 0), fact("other", "Bob", "met", "Ann")))
    await logged(postgres)

    receipt = await postgres.store.write(batch_of(home("b", 1)))
    batch = await postgres.change_log.next_batch("graph", None, 1000)

    assert sorted(items(batch)) == [fact_id("a"), fact_id("b")]
    assert {change.xid for change in batch.changes} == set(receipt.token.xids)


async def test_a_new_value_changes_the_one_before_it_alone(postgres: Postgres) -> None:
    for day in range(5):
        await postgres.store.write(batch_of(home(f"{day}", day, recorded_at=NOON + days(day))))
    await logged(postgres)

    await postgres.store.write(batch_of(home("5", 5, recorded_at=NOON + days(5))))

    assert await logged(postgres) == [fact_id("4"), fact_id("5")]


async def test_a_repeat_logs_nothing(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(home("a", 0), home("b", 1)))
    await logged(postgres)

    await postgres.store.write(batch_of(home("b", 1), home("a", 0)))

    assert await logged(postgres) == []


async def test_reopened_fact_is_logged_with_the_erasure(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(home("a", 0), home("b", 1)))
    await logged(postgres)

    receipt = await postgres.store.erase(TENANT, Selector(items=(fact_id("b"),)))
    batch = await postgres.change_log.next_batch("graph", None, 1000)

    assert sorted(items(batch)) == [fact_id("a"), fact_id("b")]
    assert {change.xid for change in batch.changes} == set(receipt.token.xids)


async def test_the_projections_follow_a_closed_fact(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(home("a", 0)))
    await embed(postgres)
    await project_graph(postgres)
    position, _ = await bootstrap(postgres)

    await postgres.store.write(batch_of(home("b", 1, recorded_at=NOON + days(2))))
    changes = await project_graph(postgres)
    delta = await postgres.feed.changes_since(position, MODEL)
    _, all_rows = await bootstrap(postgres)

    (closed,) = (fact for _, fact in changes.facts if fact.id == "a")
    assert closed.closings == (Closing("b", NOON + days(1), NOON + days(2)),)
    for row in (*delta.rows, all_rows[TENANT, fact_id("a")]):
        assert (row.item, row.recorded_at, row.valid_to) == (fact_id("a"), NOON, None)
        assert (row.closings, row.final_end) == (closed.closings, NOON + days(1))
