"""Rows with the name keys of a version before, which took similar names for one."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.log.verification import PostgresTruth
from serving.adapters.postgres.migration import migrate
from serving.adapters.postgres.tables.tenants import lock_tenant
from serving.domain.items.records import Fact, Item, TenantName, fact_id
from serving.domain.items.text import NAME_KEY_VERSION
from serving.domain.questions.query import Filter
from serving.ports.memory_store import Selector
from tests.integration.postgres.log.following import project_graph, run, write
from tests.support.builders import A_DAY_LATER, NOON, TENANT, days, fact, segment
from tests.support.waiting import until_async

pytestmark = pytest.mark.postgres

OTHER = TenantName("other")

RENAME = """
UPDATE segment SET speaker = 'j.doe', entities = '{j.doe,Goa}' WHERE id = 'dot';
UPDATE segment SET speaker = 'j-doe', entities = '{j-doe}' WHERE id = 'hyphen';
UPDATE fact SET subject = 'C++' WHERE id = 'plus';
UPDATE fact SET subject = 'C#' WHERE id = 'sharp';
UPDATE entity SET name = 'j.doe' WHERE name_key = 'j doe';
UPDATE meta SET name_key_version = 0
"""
"""The names as they were, under the keys that they then had."""


@pytest.fixture
async def stored_before(postgres: Postgres, postgres_dsn: str) -> Postgres:
    """A database with the keys of a version before, followed by the graph."""
    for tenant in (TENANT, OTHER):
        items: list[Item] = [
            segment("dot", speaker="J Doe", entities=("J Doe", "Goa")),
            segment("hyphen", speaker="J Doe", entities=("J Doe",)),
            segment("plain", speaker="Ann", entities=("Goa",)),
            _about("C", "plus", 0, evidence=("dot",)),
            _about("C", "sharp", 1),
            _about("Ann", "first", 0),
            _about("Ann", "second", 1),
            fact("named", "Ann", "corrects", "it", closes=("first",)),
        ]
        await write(postgres, *items, tenant=tenant)
    await project_graph(postgres)
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(RENAME)
    return postgres


def _about(subject: str, id_: str, after: float, **fields: Any) -> Fact:
    begins = {"single_valued": True, "valid_from": NOON + days(after / 10)}
    return fact(id_, subject, "has the value", id_, **begins, **fields)


async def _held(postgres: Postgres) -> list[str]:
    held = await postgres.catalog.list_facts(TENANT, (), A_DAY_LATER, "", 10)
    return [each.id for each in held]


async def test_rows_with_former_keys_get_their_own(
    stored_before: Postgres, postgres_dsn: str
) -> None:
    assert not await stored_before.store.ready()

    await migrate(postgres_dsn)

    assert await stored_before.store.ready()
    for names in (Filter(speakers=("J.DOE",)), Filter(entities=("j.doe",))):
        listed = await stored_before.catalog.list_segments(TENANT, names, "", 10)
        assert [each.id for each in listed] == ["dot"]
    known = await stored_before.store.known_names(TENANT)
    assert {"j.doe": "j.doe", "j-doe": "j-doe", "c#": "C#"}.items() <= known.items()
    assert "j doe" not in known
    about = await stored_before.catalog.list_facts(TENANT, ["C++"], None, "", 10)
    assert [each.id for each in about] == ["plus"]
    erased = await stored_before.store.erase(TENANT, Selector(speaker="j-doe"))
    assert [item.id for item in erased.items] == ["hyphen"]


async def test_only_facts_closed_by_another_name_hold_again(
    stored_before: Postgres, postgres_dsn: str
) -> None:
    before = await _held(stored_before)

    await migrate(postgres_dsn)

    assert before == ["named", "second", "sharp"]
    assert await _held(stored_before) == ["named", "plus", "second", "sharp"]
    reopened = await PostgresTruth(stored_before.database).reopened_facts()
    assert reopened == {TENANT: [fact_id("plus")], OTHER: [fact_id("plus")]}


async def test_projections_follow_the_rows_with_other_keys_once(
    stored_before: Postgres, postgres_dsn: str
) -> None:
    await migrate(postgres_dsn)
    changes = await project_graph(stored_before)
    await run(stored_before, "UPDATE meta SET name_key_version = 0")
    await migrate(postgres_dsn)  # computes them, and finds them right
    await migrate(postgres_dsn)
    again = await project_graph(stored_before)

    segments = {(tenant, each.id) for tenant, each in changes.segments}
    facts = {(tenant, each.id) for tenant, each in changes.facts}
    assert segments == {(t, id_) for t in (TENANT, OTHER) for id_ in ("dot", "hyphen")}
    assert facts == {(t, id_) for t in (TENANT, OTHER) for id_ in ("plus", "sharp")}
    assert (again.segments, again.facts) == ([], [])


async def test_computing_keys_continues_after_it_was_cut_off(
    stored_before: Postgres, postgres_dsn: str
) -> None:
    async with stored_before.database.transaction() as connection:
        await lock_tenant(connection, OTHER, exclusive=False)  # as a writer: only the first is done
        cut_off = asyncio.create_task(migrate(postgres_dsn))
        await until_async(lambda: _has_key(stored_before, TENANT, "s:j.doe"))
        cut_off.cancel()
        await asyncio.gather(cut_off, return_exceptions=True)
    assert not await _has_key(stored_before, OTHER, "s:j.doe")
    assert not await stored_before.store.ready()

    await migrate(postgres_dsn)

    assert await _has_key(stored_before, OTHER, "s:j.doe")
    version = await run(stored_before, "SELECT name_key_version FROM meta")
    assert version == [(NAME_KEY_VERSION,)]


async def _has_key(postgres: Postgres, tenant: TenantName, term: str) -> bool:
    found = await run(
        postgres,
        "SELECT FROM segment JOIN tenant ON tenant.id = tenant_id "
        "WHERE tenant.name = %s::text AND tags @> ARRAY[%s::text]",
        tenant,
        term,
    )
    return bool(found)
