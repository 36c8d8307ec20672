"""The default expiry of segments, and the erasure of what has expired."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from serving.domain.budget import Deadline
from serving.domain.errors import StoreUnavailableError
from serving.domain.items.records import Segment, TenantName, segment_id
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.writes import expiry
from serving.pipeline.writes.expiry import ALL_TENANTS, Lifetimes, Sweeper
from serving.pipeline.writes.forget import Eraser
from serving.pipeline.writes.ingest import Ingestor
from serving.ports.memory_store import Batch, EraseReceipt, Selector
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import FakeEmbedder
from tests.fakes.pipeline import FixedConsistency, FixedIndex
from tests.fakes.store import InMemoryStore
from tests.fakes.words import InMemoryWords
from tests.support.builders import NOON, TENANT, batch_of, days, fact, segment

SOON = Deadline.after(60)
OTHER = TenantName("other")
LIFETIMES = Lifetimes(
    {
        ALL_TENANTS: {"chitchat": days(30), "note": days(90)},
        OTHER: {"chitchat": days(1)},
    }
)
LAST_DAY = datetime(9999, 12, 31, tzinfo=UTC)


def chitchat(id_: str = "a", **fields: Any) -> Segment:
    return segment(id_, kind="chitchat", **fields)


def expiries(batch: Batch) -> list[datetime | None]:
    return [each.expires_at for each in LIFETIMES.applied_to(batch, NOON).items]


@pytest.mark.parametrize(
    ("item", "expires_at"),
    [
        (chitchat(), NOON + days(30)),
        (chitchat(event_time=NOON - days(400)), NOON + days(30)),
        (chitchat(event_time=NOON + days(5)), NOON + days(35)),
        (chitchat(event_time=LAST_DAY), None),
        (chitchat(expires_at=NOON + days(400)), NOON + days(400)),
        (segment("a"), None),
        (fact("f", "x", "y", "z"), None),
    ],
    ids=["now", "imported", "planned", "last day", "own expiry", "other kind", "fact"],
)
def test_default_expiry_counts_from_the_write(item: Segment, expires_at: datetime | None) -> None:
    assert expiries(batch_of(item)) == [expires_at]


def test_lifetime_of_a_tenant_comes_before_the_general() -> None:
    items = [chitchat(), segment("b", kind="note")]

    assert expiries(Batch(OTHER, items)) == [NOON + days(1), NOON + days(90)]


async def test_repeated_segment_keeps_its_first_default_expiry() -> None:
    store, times = InMemoryStore(), iter([NOON, NOON + days(1)])
    ingestor = Ingestor(store, lifetimes=LIFETIMES, now=lambda: next(times))
    await ingestor.ingest(batch_of(chitchat()))

    again = await ingestor.ingest(batch_of(chitchat()))

    assert again.outcomes == ["unchanged"]
    assert await store.expired(NOON + days(30), 10) == [(TENANT, segment_id("a"))]


class RacingStore(InMemoryStore):
    """Gives an item another expiry between the search for what has expired and its erasure."""

    async def erase(self, tenant: TenantName, selector: Selector) -> EraseReceipt:
        await self.write(batch_of(segment("a", "We sailed again.")))
        return await super().erase(tenant, selector)


def sweeper(store: InMemoryStore, now: datetime) -> Sweeper:
    space = VectorSpace.of(FakeEmbedder(), FixedIndex())
    eraser = Eraser(store, InMemoryWords(store), space, InMemoryGraph(), FixedConsistency())
    return Sweeper(store, eraser, lambda: now)


async def left(store: InMemoryStore, *tenants: TenantName) -> list[str]:
    items = [segment_id(id_) for id_ in "abcde"]
    return [id_ for of in tenants for _, id_ in sorted(await store.load(of, items, SOON))]


async def test_sweep_erases_what_has_expired_of_each_tenant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expiry, "ERASED_AT_ONCE", 2)
    store = InMemoryStore()
    for tenant in (TENANT, OTHER):
        due = [segment(id_, expires_at=NOON + timedelta(seconds=n)) for n, id_ in enumerate("abc")]
        await store.write(
            Batch(tenant, [*due, segment("d", expires_at=NOON + days(1)), segment("e")])
        )

    await sweeper(store, NOON + timedelta(seconds=2)).sweep()

    assert await left(store, TENANT, OTHER) == ["d", "e", "d", "e"]


async def test_sweep_after_a_restart_erases_once() -> None:
    store = InMemoryStore()
    await store.write(batch_of(segment("a", sensitive=True, expires_at=NOON), segment("b")))

    for _ in range(2):
        await sweeper(store, NOON + days(9)).sweep()

    assert await left(store, TENANT) == ["b"]


async def test_item_that_lives_longer_meanwhile_stays() -> None:
    store = RacingStore()
    await store.write(batch_of(segment("a", expires_at=NOON), segment("b", expires_at=NOON)))

    await sweeper(store, NOON).sweep()

    assert await left(store, TENANT) == ["a"]


class StuckStore(InMemoryStore):
    """Erases nothing."""

    async def erase(self, tenant: TenantName, selector: Selector) -> EraseReceipt:
        return await super().erase(tenant, Selector(items=()))


async def test_sweep_that_erases_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "ERASED_AT_ONCE", 1)
    store = StuckStore()
    await store.write(batch_of(segment("a", expires_at=NOON)))

    await sweeper(store, NOON).sweep()

    assert await left(store, TENANT) == ["a"]


async def test_sweep_without_the_store_raises() -> None:
    store = InMemoryStore()
    store.available = False

    with pytest.raises(StoreUnavailableError):
        await sweeper(store, NOON).sweep()
