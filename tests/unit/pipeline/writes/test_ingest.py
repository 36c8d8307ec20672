from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError
from serving.domain.items.records import Segment, TenantName, segment_id
from serving.pipeline.writes.backpressure import Backpressure
from serving.pipeline.writes.ingest import Ingestor
from serving.pipeline.writes.write_slots import WriteSlots
from serving.ports.change_log import ChangeLog
from serving.ports.memory_store import Batch
from tests.fakes.store import InMemoryStore
from tests.support.builders import TENANT, batch_of, fact, segment


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
        segment("stretch", "We are away from Friday to Sunday, and on Monday I work."),
        segment("apart", "He was born on 5 June 1987, and comes on Friday."),
        segment("none", "I like tea."),
    ]

    await Ingestor(store).ingest(Batch(TENANT, turns, time_zone=ZoneInfo("Asia/Kolkata")))

    assert [await mention(store, turn.id) for turn in turns] == [
        "2026-03-01T18:30..2026-03-02T18:30",
        "2026-03-01T18:30..2026-03-08T18:30",
        "1987-06-04T18:30..1987-06-05T18:30",
        "",
    ]


async def test_times_are_those_of_the_tenants_zone() -> None:
    store = InMemoryStore()
    await store.write(Batch(TENANT, [segment("a")], time_zone=ZoneInfo("Asia/Kolkata")))

    await Ingestor(store).ingest(batch_of(segment("b", "The dentist is tomorrow.")))

    assert await mention(store, "b") == "2026-03-01T18:30..2026-03-02T18:30"


async def mention(store: InMemoryStore, id_: str) -> str:
    said = await stored(store, id_)
    if said.mentions_from is None or said.mentions_to is None:
        return ""
    return f"{said.mentions_from:%Y-%m-%dT%H:%M}..{said.mentions_to:%Y-%m-%dT%H:%M}"


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
