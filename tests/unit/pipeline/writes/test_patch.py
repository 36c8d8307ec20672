"""Changes of stored items."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from serving.domain.budget import Deadline
from serving.domain.errors import InvalidRequestError, ItemNotFoundError, VersionConflictError
from serving.domain.items.records import (
    MAX_LABELS,
    Item,
    ItemId,
    Segment,
    TenantName,
    fact_id,
    segment_id,
)
from serving.pipeline.writes.expiry import ALL_TENANTS, Lifetimes
from serving.pipeline.writes.ingest import Ingestor
from serving.pipeline.writes.patch import ATTEMPTS, Patch, Patched, Patcher
from serving.ports.memory_store import Batch, Selector, WriteReceipt
from tests.fakes.store import InMemoryStore
from tests.support.builders import NOON, TENANT, batch_of, days, fact, segment

SOON = Deadline.after(60)
A = segment_id("a")
MOOD = {"mood": "calm"}


class Memory:
    """A store with what writes it and what changes it."""

    def __init__(self, store: InMemoryStore | None = None, lifetimes: Any = None) -> None:
        self.store = store or InMemoryStore()
        self.ingestor = Ingestor(self.store, lifetimes=lifetimes, now=lambda: NOON)
        self.patcher = Patcher(self.store, self.ingestor, lambda: NOON)

    async def patch(self, item: ItemId = A, if_version: int | None = None, **to: Any) -> Patched:
        zone = to.pop("time_zone", None)
        patch = Patch(**to)
        return await self.patcher.patch(TENANT, item, patch, if_version=if_version, time_zone=zone)


async def remembering(*items: Item, **parts: Any) -> Memory:
    memory = Memory(**parts)
    await memory.ingestor.ingest(batch_of(*items))
    return memory


@pytest.mark.parametrize(
    ("patch", "after"),
    [
        ({"title": "Trip"}, {"title": "Trip"}),
        ({"title": ""}, {"title": ""}),
        ({"importance": 0.0}, {"importance": 0.0}),
        ({"set_labels": {"mood": "sad", "at": "x"}}, {"labels": {"mood": "sad", "at": "x"}}),
        ({"remove_labels": ("mood", "unknown")}, {"labels": {}}),
        ({"set_labels": {"at": "x"}, "remove_labels": ("mood",)}, {"labels": {"at": "x"}}),
        ({"expires_at": NOON + days(9)}, {"expires_at": NOON + days(9)}),
        ({"never_expires": True}, {"expires_at": None}),
    ],
    ids=lambda value: next(iter(value)),
)
async def test_only_the_given_fields_change(patch: dict[str, Any], after: dict[str, Any]) -> None:
    said = segment(
        "a",
        "Mel sails tomorrow",
        title="Sea",
        speaker="Tom",
        labels=MOOD,
        entities=("Ann",),
        expires_at=NOON + days(1),
    )
    memory = await remembering(said)
    [before] = (await memory.store.load(TENANT, [A], SOON)).values()

    patched = await memory.patch(**patch)

    assert patched.item == replace(before, updated_at=patched.item.updated_at, **after)
    assert patched.item.version == 2


@pytest.mark.parametrize(
    ("given", "entities"), [((), ("Ann",)), (("Goa",), ("Goa",))], ids=["found", "given"]
)
async def test_new_text_is_read_again(given: tuple[str, ...], entities: tuple[str, ...]) -> None:
    memory = await remembering(segment("a", "Mel sails tomorrow", entities=given))

    item = (await memory.patch(text="Ann sails today", time_zone=ZoneInfo("Asia/Kolkata"))).item

    assert isinstance(item, Segment)
    assert (item.text, item.entities, item.extracted) == ("Ann sails today", entities, not given)
    assert item.mentions_from == datetime.fromisoformat("2026-03-01T00:00:00+05:30")


async def test_sentence_of_a_fact_changes() -> None:
    memory = await remembering(fact("f", "Ann", "saw", "Goa", sentence="Ann saw it."))

    patched = await memory.patch(fact_id("f"), text="Ann saw Goa.", never_expires=True)

    assert patched.item == fact(
        "f",
        "Ann",
        "saw",
        "Goa",
        sentence="Ann saw Goa.",
        created_at=patched.item.created_at,
        updated_at=patched.item.updated_at,
    )


async def test_removed_default_expiry_does_not_return() -> None:
    lifetimes = Lifetimes({ALL_TENANTS: {"turn": days(30)}})
    memory = await remembering(segment("a"), lifetimes=lifetimes)

    assert (await memory.patch(never_expires=True)).item.expires_at is None
    assert (await memory.patch(title="Trip")).item.expires_at is None


async def test_too_many_labels_are_rejected() -> None:
    memory = await remembering(segment("a", labels={str(n): "" for n in range(MAX_LABELS)}))

    with pytest.raises(InvalidRequestError, match="set_labels: would make 33 labels"):
        await memory.patch(set_labels=MOOD)
    await memory.patch(set_labels=MOOD, remove_labels=("0",))


@pytest.mark.parametrize("item", [segment_id("b"), fact_id("a"), segment_id("gone")])
async def test_unknown_or_expired_item_is_not_found(item: ItemId) -> None:
    memory = await remembering(segment("a"), segment("gone", expires_at=NOON))

    with pytest.raises(ItemNotFoundError):
        await memory.patch(item, title="Trip", expires_at=NOON + days(1))


class Interfering(InMemoryStore):
    """Others change the item, or erase it, whenever it is about to be changed."""

    def __init__(self, times: int, *, erase: bool = False) -> None:
        super().__init__()
        self.left = times
        self.erased = erase

    async def write(self, batch: Batch) -> WriteReceipt:
        if batch.versions and self.left:
            self.left -= 1
            if self.erased:
                await self.erase(TENANT, Selector(items=(A,)))
            else:
                await super().write(batch_of(segment("a", f"Mel sails {self.left}")))
        return await super().write(batch)


async def test_patch_without_version_is_applied_to_later_changes() -> None:
    memory = await remembering(segment("a"), store=Interfering(ATTEMPTS - 1))

    item = (await memory.patch(title="Trip")).item

    assert isinstance(item, Segment)
    assert (item.text, item.title) == ("Mel sails 0", "Trip")
    assert item.version == 1 + ATTEMPTS


class Slow(InMemoryStore):
    """Lets other calls read and write between a read and its write."""

    async def load(self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline) -> Any:
        found = await super().load(tenant, items, deadline)
        await asyncio.sleep(0)
        return found


async def test_patches_at_once_are_all_applied() -> None:
    memory = await remembering(segment("a"), store=Slow())
    moods = [f"mood-{number}" for number in range(16)]

    await asyncio.gather(*(memory.patch(set_labels={mood: "calm"}) for mood in moods))

    item = (await memory.patch(title="Trip")).item
    assert isinstance(item, Segment)
    assert set(item.labels) == set(moods)


async def test_patch_that_always_loses_is_a_conflict() -> None:
    memory = await remembering(segment("a"), store=Interfering(ATTEMPTS))

    with pytest.raises(VersionConflictError):
        await memory.patch(title="Trip")


@pytest.mark.parametrize("times", [0, 1], ids=["before", "meanwhile"])
async def test_lost_race_has_the_present_version(times: int) -> None:
    memory = await remembering(segment("a"), store=Interfering(times))
    if not times:
        await memory.patch(title="Sea")

    with pytest.raises(VersionConflictError) as conflict:
        await memory.patch(if_version=1, title="Trip")

    assert conflict.value.version == 2


async def test_item_erased_meanwhile_is_not_found() -> None:
    memory = await remembering(segment("a"), store=Interfering(1, erase=True))

    with pytest.raises(ItemNotFoundError):
        await memory.patch(title="Trip")

    assert not await memory.store.load(TENANT, [A], SOON)
