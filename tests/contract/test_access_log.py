"""What every access log does: the one in memory, and PostgreSQL's after it has stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from serving.adapters.postgres.reads.access_log import PostgresAccessLog
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemId, TenantName, fact_id
from serving.domain.questions.query import Scope
from serving.ports.memory_store import Selector
from tests.fixtures.memory_or_postgres import Stored
from tests.support.builders import TENANT, days, fact, ids, scope, segment

# So that the tests notice a statement without its tenant.
pytestmark = pytest.mark.without_row_security

OTHER = TenantName("other")
TODAY = datetime.now(UTC)
"""What is recorded is recorded now, so here segments are said around now."""


async def show(stored: Stored, *items: ItemId, tenant: TenantName = TENANT) -> None:
    stored.access.record(tenant, items)
    if isinstance(stored.access, PostgresAccessLog):
        await stored.access.flush()


async def counts(stored: Stored, items: Sequence[ItemId], tenant: TenantName = TENANT) -> list[int]:
    shown = await stored.access.shown_counts(tenant, items, Deadline.after(60))
    return [shown.get(item, 0) for item in items]


async def recent(stored: Stored, of: Scope, limit: int = 100) -> str:
    found = await stored.access.recently_accessed(of, limit, Deadline.after(60))
    return " ".join(item.id for item in found)


def now(**fields: object) -> Scope:
    return scope(**{"as_of": TODAY + days(7), **fields})  # type: ignore[arg-type]


async def say(stored: Stored, *names: str, tenant: TenantName = TENANT) -> None:
    """Stores segments, each said a day before the one before it, the first yesterday."""
    await stored.write(
        *(
            segment(name, event_time=TODAY - days(place))
            for place, name in enumerate(names, start=1)
        ),
        tenant=tenant,
    )


# ---------------------------------------------------------------- how often


async def test_accesses_add_up_by_tenant_and_item(stored: Stored) -> None:
    for tenant in (TENANT, OTHER):
        await stored.write(segment("a"), segment("b"), fact("a", "x", "y", "z"), tenant=tenant)
    items = [*ids("a", "b"), fact_id("a")]

    await show(stored, *ids("a"), fact_id("a"))
    await show(stored, *ids("a", "b"))
    await show(stored, *ids("a"))
    await show(stored, *ids("b"), tenant=OTHER)

    assert await counts(stored, items) == [3, 1, 1]
    assert await counts(stored, items, OTHER) == [0, 1, 0]


async def test_items_that_were_never_shown_have_no_count(stored: Stored) -> None:
    await say(stored, "a")

    assert await counts(stored, ids("a", "unknown")) == [0, 0]
    assert await counts(stored, []) == []
    assert await counts(stored, ids("a"), TenantName("nobody")) == [0]


# ---------------------------------------------------------------- when last


async def test_later_event_time_counts_over_last_access(stored: Stored) -> None:
    await say(stored, "a", "b")
    await stored.write(segment("later", event_time=TODAY + days(1)))

    await show(stored, *ids("later", "b"))

    assert await recent(stored, now()) == "later b a"


async def test_equal_times_are_ordered_by_id(stored: Stored) -> None:
    await stored.write(
        *(segment(name, event_time=TODAY - days(1)) for name in ("b", "é", "a", "B"))
    )
    assert await recent(stored, now()) == "B a b é"

    await show(stored, *ids("é", "b"))

    assert await recent(stored, now()) == "b é B a"


async def test_last_shown_precede_last_said_within_limit(stored: Stored) -> None:
    await say(stored, *"abcdef")
    for name in "bfbd":
        await show(stored, *ids(name))

    for limit in range(7):
        assert await recent(stored, now(), limit) == " ".join("dbface"[:limit])


async def test_segments_alone_are_listed_without_the_sensitive(stored: Stored) -> None:
    await say(stored, "a", "b")
    await stored.write(fact("a", "x", "y", "z"))
    await stored.write(*(segment(name, sensitive=True) for name in ("hidden", "never shown")))

    await show(stored, *ids("b"))
    await show(stored, fact_id("a"), *ids("unknown", "hidden"))

    assert await recent(stored, now()) == "b a"


async def test_tenants_do_not_see_each_other(stored: Stored) -> None:
    await say(stored, "a", "b")
    await say(stored, "b", "a", "c", tenant=OTHER)

    await show(stored, *ids("b", "c"))
    await show(stored, *ids("c"), tenant=OTHER)

    assert await recent(stored, now()) == "b a"
    assert await recent(stored, now(tenant=OTHER)) == "c b a"
    assert await recent(stored, now(tenant="nobody")) == ""


async def test_erased_segments_are_left_out(stored: Stored) -> None:
    await say(stored, "a", "b", "c")
    await show(stored, *ids("a", "b"))

    await stored.erase(*ids("b"))
    assert await recent(stored, now()) == "a c"

    await stored.store.erase(TENANT, Selector(everything=True))
    assert await recent(stored, now()) == ""
