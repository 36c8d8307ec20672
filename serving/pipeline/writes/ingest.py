"""Stores items: entities and named times are read, duplicates dropped, the rest stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.english.dates import EnglishDates
from serving.domain.english.entities import entities_in
from serving.domain.items.period import Period, disjoint
from serving.domain.items.records import Item, ItemId, Segment
from serving.pipeline.writes.backpressure import Backpressure
from serving.pipeline.writes.expiry import Lifetimes
from serving.pipeline.writes.write_slots import WriteSlots
from serving.ports.memory_store import Batch, MemoryStore, Outcome, WriteReceipt

TIME_ZONE_S = 5.0
"""The wait of a write for its tenant's time zone."""

_DATES = EnglishDates()


@dataclass(frozen=True, slots=True)
class Ingested:
    """The outcome of each item, in the order given, and the token of the write."""

    outcomes: list[Outcome]
    token: ConsistencyToken


class Ingestor:
    """Stores batches of valid items.

    Segments are read for the times that they speak of, and for entities if they come without.
    Those that come without an expiry live as `lifetimes` say.
    """

    def __init__(
        self,
        store: MemoryStore,
        slots: WriteSlots | None = None,
        backpressure: Backpressure | None = None,
        lifetimes: Lifetimes | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._slots = slots or WriteSlots()
        self._backpressure = backpressure
        self._lifetimes = lifetimes or Lifetimes()
        self._now = now

    async def ingest(self, batch: Batch, *, patient: bool = False) -> Ingested:
        """Stores the items in one transaction; of several with the same name the last counts.

        A write that is not `patient` may be refused if too much waits.

        Raises:
            OverloadedError: Too many writes wait, or too many changes for a projection.
            TextSearchConfigConflictError: The tenant has another one.
            StoreUnavailableError: Nothing was stored.
        """
        last = {item.item: place for place, item in enumerate(batch.items)}
        places = sorted(last.values())
        distinct = replace(batch, items=[batch.items[place] for place in places])
        distinct = self._lifetimes.applied_to(distinct, self._now())
        receipt = await self.write(distinct, patient=patient)
        outcomes: list[Outcome] = ["unchanged"] * len(batch.items)
        for place, outcome in zip(places, receipt.outcomes, strict=True):
            outcomes[place] = outcome
        return Ingested(outcomes, receipt.token)

    async def write(
        self, batch: Batch, *, patient: bool = False, retold: bool = True
    ) -> WriteReceipt:
        """Stores distinct items as they are; if `retold`, their texts are read for what they name.

        Raises as `ingest`, and as `MemoryStore.write` does for the versions of a batch.
        """
        if self._backpressure is not None:
            await self._backpressure.admit(patient=patient)
        if retold:
            batch = replace(batch, items=await self._with_mentions(batch))
        async with self._slots.slot(batch.tenant, patient=patient):
            batch = replace(batch, at=self._now())
            return await self._store.write(await self._with_entities(batch) if retold else batch)

    async def _with_mentions(self, batch: Batch) -> list[Item]:
        zone = batch.time_zone or self._store.known_time_zone(batch.tenant)
        if zone is None:
            zone = await self._store.read_time_zone(batch.tenant, Deadline.after(TIME_ZONE_S))
        read: list[Item] = []
        for item in batch.items:
            if isinstance(item, Segment):
                said_at = item.event_time.astimezone(zone)
                item = replace(item, mentions=mentions_of(item.text, said_at))
                # As below: others wait for their answers.
                await asyncio.sleep(0)
            read.append(item)
        return read

    async def _with_entities(self, batch: Batch) -> Batch:
        bare = [item for item in batch.items if isinstance(item, Segment) and not item.entities]
        if not bare:
            return batch
        known_names = await self._store.known_names(batch.tenant)
        named: dict[ItemId, Item] = {item.item: item for item in batch.items}
        for segment in bare:
            entities = entities_in(segment, known_names)
            named[segment.item] = replace(segment, entities=entities, extracted=True)
            # Takes a quarter of a millisecond, and others wait for their answers.
            await asyncio.sleep(0)
        return replace(batch, items=list(named.values()))


def mentions_of(text: str, said_at: datetime) -> tuple[Period, ...]:
    """The times that a text speaks of; `said_at` is a time in the zone of the speaker."""
    return disjoint(_DATES.mentioned(text, said_at))
