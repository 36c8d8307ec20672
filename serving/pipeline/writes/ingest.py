"""Stores items: entities are extracted, duplicates dropped, the rest stored in a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import Item, ItemId, Segment, TenantName
from serving.pipeline.writes.write_slots import WriteSlots
from serving.ports.memory_store import GivenVectors, MemoryStore, Outcome
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
        tenant: TenantName,
        items: Sequence[Item],
        text_search_config: str = "",
        undated: frozenset[ItemId] = frozenset(),
        given: GivenVectors | None = None,
        *,
        patient: bool = False,
    ) -> Ingested:
        """Stores the items in one transaction; of several with the same name the last counts.

        The items in `undated` came without a time and were given that of their receipt. A write
        that is not `patient` may be refused if too many wait.

        Raises:
            OverloadedError: Too many writes wait, and no tenant has more of them for its weight.
            TextSearchConfigConflictError: The tenant has another one.
            StoreUnavailableError: Nothing was stored.
        """
        last = {item.item: place for place, item in enumerate(items)}
        places = sorted(last.values())
        distinct = [items[place] for place in places]
        async with self._slots.slot(tenant, patient=patient):
            distinct, extracted = await self._with_entities(tenant, distinct)
            receipt = await self._store.write(
                tenant, distinct, text_search_config, extracted, undated, given
            )
        outcomes: list[Outcome] = ["unchanged"] * len(items)
        for place, outcome in zip(places, receipt.outcomes, strict=True):
            outcomes[place] = outcome
        return Ingested(outcomes, receipt.token)

    async def _with_entities(
        self, tenant: TenantName, items: Sequence[Item]
    ) -> tuple[list[Item], frozenset[ItemId]]:
        bare = frozenset(item.item for item in items if _comes_without_entities(item))
        if not bare:
            return list(items), bare
        known_names = await self._store.known_names(tenant)
        named: list[Item] = []
        for item in items:
            if item.item in bare:
                item = self._named(item, known_names)
                # Takes a quarter of a millisecond, and others wait for their answers.
                await asyncio.sleep(0)
            named.append(item)
        return named, bare

    def _named(self, item: Item, known_names: Mapping[str, str]) -> Item:
        assert isinstance(item, Segment), "only segments have entities; this is a bug"
        return replace(item, entities=self._extractor.extract(item, known_names))


def _comes_without_entities(item: Item) -> bool:
    return isinstance(item, Segment) and not item.entities
