"""Items that are stored, changed, and erased when they expire."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from serving.domain.budget import Deadline
from serving.domain.errors import (
    InvalidRequestError,
    ItemNotFoundError,
    OverloadedError,
    VersionConflictError,
)
from serving.domain.items.records import (
    MAX_LABELS,
    Item,
    ItemId,
    Segment,
    TenantName,
    fact_id,
    segment_id,
)
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.writes import expiry
from serving.pipeline.writes.backpressure import Backpressure
from serving.pipeline.writes.expiry import ALL_TENANTS, Lifetimes, Sweeper
from serving.pipeline.writes.forget import Eraser
from serving.pipeline.writes.ingest import Ingestor
from serving.pipeline.writes.patch import ATTEMPTS, Patch, Patched, Patcher
from serving.pipeline.writes.write_slots import WriteSlots
from serving.ports.change_log import ChangeLog
from serving.ports.memory_store import Batch, EraseReceipt, Selector, WriteReceipt
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import FakeEmbedder
from tests.fakes.pipeline import FixedConsistency, FixedIndex
from tests.fakes.store import InMemoryStore
from tests.fakes.words import InMemoryWords
from tests.support.builders import NOON, OTHER, TENANT, batch_of, days, fact, segment


@pytest.mark.parametrize(("given", "kept"), [((), ("Mel", "Goa")), (("Tom",), ("Tom",))])
async def test_segment_without_entities_alone_is_given_them(
    given: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    store = InMemoryStore()

    await Ingestor(store).ingest(batch_of(segment("a", "Mel sails to Goa", entities=given)))

    assert (await stored(store, "a")).entities == kept


async def test_found_names_and_times_are_no_content() -> None:
    ingestor = Ingestor(InMemoryStore())
    batch = batch_of(segment("a", "Mel sails tomorrow."))
    await ingestor.ingest(batch)

    again = await ingestor.ingest(replace(batch, time_zone=ZoneInfo("Asia/Kolkata")))

    assert again.outcomes == ["unchanged"]


async def test_times_that_a_turn_names_are_stored() -> None:
    store = InMemoryStore()
    turns = [
        segment("day", "The dentist is tomorrow."),
        segment("stretch", "We are away from Friday to Sunday."),
        segment("adjoining", "We are away on Friday, and on Saturday I work."),
        segment("apart", "I was in Rome on Tuesday and in Paris on Thursday."),
        segment("far apart", "He was born on 5 June 1987. He comes on Friday."),
        segment("none", "I like tea."),
    ]

    await Ingestor(store).ingest(Batch(TENANT, turns, time_zone=ZoneInfo("Asia/Kolkata")))

    assert [await mention(store, turn.id) for turn in turns] == [
        "2026-03-01T18:30..2026-03-02T18:30",
        "2026-03-05T18:30..2026-03-08T18:30",
        "2026-03-05T18:30..2026-03-07T18:30",
        "2026-02-23T18:30..2026-02-24T18:30 2026-02-25T18:30..2026-02-26T18:30",
        "1987-06-04T18:30..1987-06-05T18:30 2026-03-05T18:30..2026-03-06T18:30",
        "",
    ]


async def test_times_are_those_of_the_tenants_zone() -> None:
    store = InMemoryStore()
    await store.write(Batch(TENANT, [segment("a")], time_zone=ZoneInfo("Asia/Kolkata")))

    await Ingestor(store).ingest(batch_of(segment("b", "The dentist is tomorrow.")))

    assert await mention(store, "b") == "2026-03-01T18:30..2026-03-02T18:30"


async def mention(store: InMemoryStore, id_: str) -> str:
    said = await stored(store, id_)
    times = [f"{each.begins:%Y-%m-%dT%H:%M}..{each.ends:%Y-%m-%dT%H:%M}" for each in said.mentions]
    return " ".join(times)


async def test_of_several_items_with_one_id_the_last_counts() -> None:
    store = InMemoryStore()
    items = segment("a", "first"), fact("a", "Mel", "likes", "Tom"), segment("a", "last")

    result = await Ingestor(store).ingest(batch_of(*items))

    assert result.outcomes == ["unchanged", "created", "created"]
    assert (await stored(store, "a")).text == "last"


async def stored(store: InMemoryStore, id_: str) -> Segment:
    rows = await store.load(TENANT, [segment_id(id_)], Deadline.after(1))
    row = rows[segment_id(id_)]
    assert isinstance(row, Segment)
    return row


async def test_ingestion_waits_for_a_write_slot() -> None:
    slots = WriteSlots(max_concurrent=2)
    ingestor = Ingestor(InMemoryStore(), slots)
    async with slots.slot(TENANT):
        waiting = asyncio.create_task(ingestor.ingest(batch_of(segment("a"))))
        await asyncio.sleep(0)  # until it waits
        other = await ingestor.ingest(Batch(TenantName("other"), [segment("a")]))
        assert not waiting.done()

    assert other.outcomes == (await waiting).outcomes == ["created"]


async def test_others_run_between_the_segments_of_a_batch() -> None:
    batch = [segment(f"s{number}", "Mel") for number in range(100)]
    writing = asyncio.create_task(Ingestor(InMemoryStore()).ingest(Batch(TENANT, batch)))

    for _ in range(2 * len(batch)):  # between reading their times, and between their entities
        await asyncio.sleep(0)

    assert not writing.done()
    await writing


async def test_ingestion_is_refused_when_projections_lag() -> None:
    class FullLog:
        async def has_pending(self, count: int) -> bool:
            return True

    store = InMemoryStore()
    backpressure = Backpressure(cast(ChangeLog, FullLog()))
    ingestor = Ingestor(store, backpressure=backpressure)

    with pytest.raises(OverloadedError):
        await ingestor.ingest(batch_of(segment("a")))

    assert not await store.load(TENANT, [segment_id("a")], Deadline.after(1))


# ---------------------------------------------------------------- changes of stored items


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
    [today] = item.mentions
    assert today.begins == datetime.fromisoformat("2026-03-01T00:00:00+05:30")


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


# ---------------------------------------------------------------- expiry


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
    store, times = InMemoryStore(), iter([NOON, NOON, NOON + days(1), NOON + days(1)])
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


async def test_sweep_erases_expired_items_of_each_tenant(
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
