"""What every access log does: the one in memory, and PostgreSQL's after it has stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.reads.access_log import PostgresAccessLog
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemId, TenantName, fact_id
from serving.domain.questions.query import Filter, Scope, TimeRange
from serving.ports.access import AccessLog
from serving.ports.memory_store import Batch, MemoryStore, Selector
from tests.fakes.store import InMemoryStore
from tests.fakes.times import InMemoryAccessLog
from tests.support.builders import TENANT, batch_of, days, fact, ids, scope, segment

# So that the tests notice a statement without its tenant.
pytestmark = pytest.mark.without_row_security

OTHER = TenantName("other")
TODAY = datetime.now(UTC)
"""What is recorded is recorded now, so here segments are said around now."""


async def _nothing_to_store() -> None:
    pass


@dataclass(frozen=True)
class Logged:
    store: MemoryStore
    access: AccessLog
    settle: Callable[[], Awaitable[None]] = _nothing_to_store

    async def show(self, *items: ItemId, tenant: TenantName = TENANT) -> None:
        """Records that the items were shown together."""
        self.access.record(tenant, items)
        await self.settle()

    async def counts(self, items: Sequence[ItemId], tenant: TenantName = TENANT) -> list[int]:
        """How often each was shown."""
        counts = await self.access.shown_counts(tenant, items, Deadline.after(60))
        return [counts.get(item, 0) for item in items]

    async def recent(self, of: Scope, limit: int = 100) -> str:
        """The ids of what was accessed last, in order."""
        found = await self.access.recently_accessed(of, limit, Deadline.after(60))
        return " ".join(item.id for item in found)


@pytest.fixture(
    params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)],
)
def logged(request: pytest.FixtureRequest) -> Logged:
    if request.param == "memory":
        memory = InMemoryStore()
        return Logged(memory, InMemoryAccessLog(memory))
    adapters: Postgres = request.getfixturevalue("postgres")
    access = PostgresAccessLog(adapters.database)  # not opened, it stores only when told
    return Logged(adapters.store, access, access.flush)


def now(**fields: object) -> Scope:
    """All of the test tenant, as of a week ahead."""
    return scope(**{"as_of": TODAY + days(7), **fields})  # type: ignore[arg-type]


async def write(logged: Logged, *names: str, tenant: TenantName = TENANT) -> None:
    """Stores segments, each said a day before the one before it, the first yesterday."""
    await logged.store.write(
        Batch(
            tenant,
            [
                segment(name, event_time=TODAY - days(place))
                for place, name in enumerate(names, start=1)
            ],
        )
    )


# ---------------------------------------------------------------- how often


async def test_accesses_add_up_by_tenant_and_item(logged: Logged) -> None:
    for tenant in (TENANT, OTHER):
        await logged.store.write(
            Batch(tenant, [segment("a"), segment("b"), fact("a", "x", "y", "z")])
        )
    items = [*ids("a", "b"), fact_id("a")]

    await logged.show(*ids("a"), fact_id("a"))
    await logged.show(*ids("a", "b"))
    await logged.show(*ids("a"))
    await logged.show(*ids("b"), tenant=OTHER)

    assert await logged.counts(items) == [3, 1, 1]
    assert await logged.counts(items, OTHER) == [0, 1, 0]


async def test_items_that_were_never_shown_have_no_count(logged: Logged) -> None:
    await write(logged, "a")

    assert await logged.counts(ids("a", "unknown")) == [0, 0]
    assert await logged.counts([]) == []
    assert await logged.counts(ids("a"), TenantName("nobody")) == [0]


# ---------------------------------------------------------------- when last


async def test_last_shown_comes_first_and_then_last_said(logged: Logged) -> None:
    await write(logged, "a", "b", "c", "d")

    await logged.show(*ids("c"))
    await logged.show(*ids("d"))

    assert await logged.recent(now()) == "d c a b"


async def test_showing_again_moves_to_the_front(logged: Logged) -> None:
    await write(logged, "a", "b", "c")

    for name in "abcb":
        await logged.show(*ids(name))

    assert await logged.recent(now()) == "b c a"


async def test_later_event_time_counts_over_last_access(logged: Logged) -> None:
    await write(logged, "a", "b")
    await logged.store.write(batch_of(segment("later", event_time=TODAY + days(1))))

    await logged.show(*ids("later", "b"))

    assert await logged.recent(now()) == "later b a"


async def test_equal_times_are_ordered_by_id(logged: Logged) -> None:
    await logged.store.write(
        batch_of(*(segment(name, event_time=TODAY - days(1)) for name in ("b", "é", "a", "B")))
    )
    assert await logged.recent(now()) == "B a b é"

    await logged.show(*ids("é", "b"))

    assert await logged.recent(now()) == "b é B a"


async def test_the_limit_keeps_the_latest_of_both_kinds(logged: Logged) -> None:
    await write(logged, *"abcdef")
    for name in "fbd":
        await logged.show(*ids(name))

    for limit in range(7):
        assert await logged.recent(now(), limit) == " ".join("dbface"[:limit])


async def test_segment_after_the_clock_is_hidden(logged: Logged) -> None:
    await write(logged, "a", "b", "c")
    await logged.show(*ids("a", "c"))

    assert await logged.recent(now(as_of=TODAY - days(1.5))) == "c b"


async def test_segment_recorded_after_known_at_is_hidden(logged: Logged) -> None:
    await write(logged, "a")
    (first,) = (await logged.store.load(TENANT, ids("a"), Deadline.after(60))).values()
    await write(logged, "b", "c")
    await logged.show(*ids("b"))
    await logged.show(*ids("a"))

    assert first.created_at is not None
    assert await logged.recent(now(known_at=first.created_at - timedelta(microseconds=1))) == ""
    assert await logged.recent(now(known_at=first.created_at)) == "a"
    assert await logged.recent(now(known_at=TODAY + days(1))) == "a b c"


FILTERS = [
    (Filter(kinds=("note",)), "d b"),
    (Filter(min_importance=0.6), "c a"),
    (Filter(event_time=TimeRange(TODAY - days(2.5))), "a b"),
    (Filter(speakers=("nobody",)), ""),
]


async def test_filters_hold(logged: Logged) -> None:
    await logged.store.write(
        batch_of(
            segment("a", importance=0.7, event_time=TODAY - days(1)),
            segment("b", kind="note", event_time=TODAY - days(2)),
            segment("c", importance=0.9, event_time=TODAY - days(3)),
            segment("d", kind="note", event_time=TODAY - days(4)),
        )
    )
    await logged.show(*ids("c", "d"))

    for filter_, passing in FILTERS:
        assert await logged.recent(now(filter_=filter_)) == passing, filter_


async def test_sensitive_segments_are_left_out(logged: Logged) -> None:
    await logged.store.write(
        batch_of(segment("a"), segment("b", sensitive=True), segment("c", sensitive=True))
    )
    await logged.show(*ids("a", "b"))

    assert await logged.recent(now()) == "a"


async def test_facts_and_unknown_items_are_left_out(logged: Logged) -> None:
    await write(logged, "a", "b")
    await logged.store.write(batch_of(fact("a", "x", "y", "z")))

    await logged.show(*ids("b"))
    await logged.show(fact_id("a"), *ids("unknown"))

    assert await logged.recent(now()) == "b a"


async def test_tenants_do_not_see_each_other(logged: Logged) -> None:
    await write(logged, "a", "b")
    await write(logged, "b", "a", "c", tenant=OTHER)

    await logged.show(*ids("b", "c"))
    await logged.show(*ids("c"), tenant=OTHER)

    assert await logged.recent(now()) == "b a"
    assert await logged.recent(now(tenant=OTHER)) == "c b a"
    assert await logged.recent(now(tenant="nobody")) == ""


async def test_erased_segments_are_left_out(logged: Logged) -> None:
    await write(logged, "a", "b", "c")
    await logged.show(*ids("a", "b"))

    await logged.store.erase(TENANT, Selector(items=tuple(ids("b"))))

    assert await logged.recent(now()) == "a c"


async def test_an_erased_tenant_has_no_past(logged: Logged) -> None:
    await write(logged, "a", "b")
    await logged.show(*ids("b"))
    await logged.store.erase(TENANT, Selector(everything=True))

    assert await logged.recent(now()) == ""
