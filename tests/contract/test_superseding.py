"""How every memory store keeps what ended facts, the one in memory and PostgreSQL."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving.domain.items.records import Fact, Item, TenantName, fact_id, segment_id
from serving.domain.items.validity import Clocks, Closing
from serving.ports.memory_store import Selector
from tests.fixtures.memory_or_postgres import Stored
from tests.support.builders import NOON, OTHER, TENANT, days, fact, segment
from tests.support.examples import examples
from tests.support.naive_facts import Table, bare, held

# So that the tests notice a statement without its tenant.
pytestmark = pytest.mark.without_row_security


async def facts(stored: Stored, tenant: TenantName = TENANT) -> dict[str, Fact]:
    listed = await stored.catalog.list_facts(tenant, (), None, "", 100)
    return {found.id: found for found in listed}


async def closers(stored: Stored, tenant: TenantName = TENANT) -> dict[str, str]:
    return {
        id_: " ".join(closing.by for closing in found.closings)
        for id_, found in (await facts(stored, tenant)).items()
    }


def home(id_: str, place: str, day: int, **fields: Any) -> Fact:
    begins = {"valid_from": NOON + days(day), "single_valued": True}
    return fact(id_, "Ann", "lives in", place, **{**begins, **fields})


GOA, ROME, OSLO = home("goa", "Goa", 0), home("rome", "Rome", 1), home("oslo", "Oslo", 2)
PLAIN = home("goa", "Goa", 0, single_valued=False)
LEFT = fact("left", "Ann", "left", "Goa", closes=("goa",), valid_from=NOON + days(1))


async def test_a_fact_closes_those_that_it_names(stored: Stored) -> None:
    await stored.write(PLAIN)
    await stored.write(LEFT)

    [closed, left] = await stored.load(fact_id("goa"), fact_id("left"))
    assert isinstance(closed, Fact)
    assert isinstance(left, Fact)
    assert closed.closings == (Closing("left", NOON + days(1), NOON),)
    assert (bare(closed), bare(left)) == (PLAIN, LEFT)


@pytest.mark.parametrize("order", list(itertools.permutations((GOA, ROME, OSLO))))
async def test_history_of_single_value_ignores_order_of_arrival(
    stored: Stored, order: tuple[Fact, ...]
) -> None:
    for one in order:
        await stored.write(one)

    assert await closers(stored) == {"goa": "rome", "rome": "oslo", "oslo": ""}


async def test_fact_arriving_after_its_closer_is_closed(stored: Stored) -> None:
    await stored.write(LEFT, ROME)
    await stored.write(PLAIN, home("bern", "Bern", -1, single_valued=False))

    assert await closers(stored) == {"bern": "rome", "goa": "left", "left": "", "rome": ""}


@pytest.mark.parametrize(
    ("closer", "changed"),
    [
        (ROME, replace(ROME, single_valued=False)),
        (ROME, replace(ROME, relation="works in")),
        (ROME, replace(ROME, subject="Bob")),
        (ROME, replace(ROME, valid_from=NOON - days(1))),
        (ROME, replace(PLAIN, relation="liked")),
        (LEFT, replace(LEFT, closes=())),
    ],
    ids=["many values", "relation", "subject", "earlier", "closed fact", "name taken back"],
)
async def test_a_fact_that_closes_no_longer_leaves_the_other_open(
    stored: Stored, closer: Fact, changed: Fact
) -> None:
    await stored.write(PLAIN, closer)

    await stored.write(changed)

    assert (await closers(stored))["goa"] == ""


@pytest.mark.parametrize(
    ("selected", "history"),
    [
        (fact_id("oslo"), {"goa": "rome", "rome": ""}),
        (fact_id("rome"), {"goa": "oslo", "oslo": ""}),
        (segment_id("said"), {"goa": "oslo", "oslo": ""}),
        (fact_id("goa"), {"oslo": "", "rome": "oslo"}),
    ],
    ids=["the last", "one between", "its evidence", "the first"],
)
async def test_erased_fact_reopens_facts_closed_by_it_alone(
    stored: Stored, selected: Any, history: dict[str, str]
) -> None:
    said = replace(ROME, evidence=("said",))
    await stored.write(segment("said"), GOA, said, OSLO)

    await stored.erase(selected)

    assert await closers(stored) == history


async def test_tenants_close_nothing_of_each_other(stored: Stored) -> None:
    await stored.write(PLAIN)
    await stored.write(LEFT, ROME, tenant=OTHER)
    await stored.write(PLAIN, tenant=OTHER)
    await stored.write(home("bern", "Bern", -1, single_valued=False))

    assert await closers(stored) == {"bern": "", "goa": ""}
    await stored.write(LEFT)
    await stored.store.erase(OTHER, Selector(items=(fact_id("left"), fact_id("rome"))))
    assert await closers(stored) == {"bern": "", "goa": "left", "left": ""}
    assert await closers(stored, OTHER) == {"goa": ""}


TEA = fact("goa", "Bob", "likes", "tea")
NOTE = fact("note", "Bob", "met", "Cid", valid_from=NOON + days(5))


@pytest.mark.parametrize("mine", [ROME, replace(NOTE, closes=("goa",)), None])
async def test_equal_ids_of_tenants_are_different_facts(stored: Stored, mine: Fact | None) -> None:
    await stored.write(TEA, NOTE, home("bern", "Bern", -1), OSLO)
    await stored.write(PLAIN, replace(NOTE, closes=("goa",)), tenant=OTHER)

    if mine is None:
        await stored.erase(NOTE.item)
    else:
        await stored.write(mine)

    assert (await closers(stored))["goa"] == ("note" if mine and mine.closes else "")


async def test_a_repeat_changes_nothing(stored: Stored) -> None:
    first = await stored.write(GOA, ROME, LEFT)
    before = await facts(stored)

    again = await stored.write(LEFT, GOA, ROME)

    assert again.outcomes == ["unchanged"] * 3
    assert again.token == first.token
    assert await facts(stored) == before


# ---------------------------------------------------------------- against a naive table

DAY = st.integers(0, 4).map(lambda day: NOON + days(day))
SAID = ("s", "t")
IDS = "abcdef"
FACTS = st.builds(
    lambda id_, subject, relation, **fields: fact(id_, subject, relation, "somewhere", **fields),
    st.sampled_from(IDS),
    st.sampled_from(["Ann", "ann", "Bob"]),
    st.sampled_from(["lives in", "works in"]),
    recorded_at=DAY,
    valid_from=st.none() | DAY,
    valid_to=st.none() | DAY,
    retracted_at=st.none() | DAY,
    evidence=st.sampled_from([(), ("s",), SAID]),
    closes=st.lists(st.sampled_from(IDS), max_size=2, unique=True).map(tuple),
    single_valued=st.booleans(),
)
ERASED = st.sampled_from([*map(fact_id, IDS), *map(segment_id, SAID)])


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    history=st.lists(st.lists(FACTS, min_size=1, max_size=3) | ERASED, min_size=1, max_size=8),
    clocks=st.lists(st.tuples(DAY, st.none() | DAY), min_size=1, max_size=4),
)
async def test_any_history_equals_a_table_of_facts(
    stored: Stored, history: list[Any], clocks: list[tuple[datetime, datetime | None]]
) -> None:
    tenant, table = TenantName(uuid.uuid4().hex), Table()
    for change in history:
        if isinstance(change, list):
            batch: list[Item] = [*{one.id: one for one in change}.values()]
            table.write(batch)
            await stored.write(*batch, tenant=tenant)
        else:
            table.erase(change)
            await stored.store.erase(tenant, Selector(items=(change,)))

    found = await facts(stored, tenant)

    assert {id_: bare(one) for id_, one in found.items()} == table.facts
    for as_of, known_at in clocks:
        holding = [id_ for id_, one in found.items() if one.holds(Clocks(as_of, known_at))]
        listed = await stored.catalog.list_facts(tenant, (), as_of, "", 100)
        assert sorted(holding) == held(table.facts.values(), as_of, known_at)
        assert [one.id for one in listed] == held(table.facts.values(), as_of)
