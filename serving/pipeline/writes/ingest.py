"""Stores items: entities are extracted, duplicates dropped, the rest stored in a transaction."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import Item, ItemId, Segment
from serving.pipeline.writes.write_slots import WriteSlots
from serving.ports.memory_store import Batch, MemoryStore, Outcome
from serving.ports.text_analysis import EntityExtractor


@dataclass(frozen=True, slots=True)
class Ingested:
    """The outcome of each item, in the order given, and the token of the write."""

    outcomes: list[Outcome]
    token: ConsistencyToken


class Ingestor:
    """Stores batches of valid items.

    Args:
        store: Where they are stored.
        extractor: Finds the entities of segments that come without.
        slots: Which writes run; None for the usual ones.
    """

    def __init__(
        self, store: MemoryStore, extractor: EntityExtractor, slots: WriteSlots | None = None
    ) -> None:
        self._store = store
        self._extractor = extractor
        self._slots = slots or WriteSlots()

    async def ingest(
        self,
        batch: Batch,
        *,
        patient: bool = False,
    ) -> Ingested:
        """Stores the items in one transaction; of several with the same name the last counts.

        A write that is not `patient` may be refused if too many wait.

        Raises:
            OverloadedError: Too many writes wait, and no tenant has more of them for its weight.
            TextSearchConfigConflictError: The tenant has another one.
            StoreUnavailableError: Nothing was stored.
        """
        last = {item.item: place for place, item in enumerate(batch.items)}
        places = sorted(last.values())
        distinct = replace(batch, items=[batch.items[place] for place in places])
        async with self._slots.slot(batch.tenant, patient=patient):
            receipt = await self._store.write(await self._with_entities(distinct))
        outcomes: list[Outcome] = ["unchanged"] * len(batch.items)
        for place, outcome in zip(places, receipt.outcomes, strict=True):
            outcomes[place] = outcome
        return Ingested(outcomes, receipt.token)

    async def _with_entities(self, batch: Batch) -> Batch:
        bare = [item for item in batch.items if isinstance(item, Segment) and not item.entities]
        if not bare:
            return batch
        known_names = await self._store.known_names(batch.tenant)
        named: dict[ItemId, Item] = {item.item: item for item in batch.items}
        for segment in bare:
            entities = self._extractor.extract(segment, known_names)
            named[segment.item] = replace(segment, entities=entities)
            # Takes a quarter of a millisecond, and others wait for their answers.
            await asyncio.sleep(0)
        extracted = frozenset(segment.item for segment in bare)
        return replace(batch, items=list(named.values()), extracted=extracted)
