"""Erases items, and verifies in every store that they are gone."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sized
from dataclasses import dataclass

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import TriviumError
from serving.domain.items.records import ItemKind, TenantName
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.writes.lookups import Lookup, LookupKey, Lookups
from serving.ports.change_log import Consistency
from serving.ports.graph import Graph
from serving.ports.memory_store import EraseReceipt, MemoryStore, Selector
from serving.ports.words import LexicalSearch


@dataclass(frozen=True, slots=True)
class StoreReceipt:
    """What one store removed, and its verification.

    `removed` is 0 for a store that does not count, `remaining` the most that any lookup found.
    """

    store: str
    verified: bool
    remaining: int = 0
    reason: str = ""
    removed: int = 0
    lookups: tuple[Lookup, ...] = ()

    @classmethod
    def of(cls, store: str, lookups: Iterable[Lookup], removed: int = 0) -> StoreReceipt:
        """The receipt of a store that answered every lookup."""
        told = tuple(lookups)
        remaining = max(lookup.found for lookup in told)
        return cls(store, verified=True, remaining=remaining, removed=removed, lookups=told)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was erased, and the verification of each store."""

    segments: int
    facts: int
    receipts: list[StoreReceipt]
    token: ConsistencyToken


class Eraser:
    """Erases from PostgreSQL, and waits for the projections to follow."""

    def __init__(
        self,
        store: MemoryStore,
        words: LexicalSearch,
        space: VectorSpace,
        graph: Graph,
        consistency: Consistency,
    ) -> None:
        self._store = store
        self._words = words
        self._space = space
        self._graph = graph
        self._consistency = consistency

    async def forget(self, tenant: TenantName, selector: Selector, deadline: Deadline) -> Forgotten:
        """Erases what is selected; a store that does not follow in time is not verified.

        Raises:
            StoreUnavailableError: Nothing was erased.
        """
        erased = await self._store.erase(tenant, selector)
        return Forgotten(
            segments=sum(item.kind is ItemKind.SEGMENT for item in erased.items),
            facts=sum(item.kind is ItemKind.FACT for item in erased.items),
            receipts=await self._verify(tenant, selector, erased, deadline),
            token=erased.token,
        )

    async def _verify(
        self, tenant: TenantName, selector: Selector, erased: EraseReceipt, deadline: Deadline
    ) -> list[StoreReceipt]:
        # The named ones too: a call that was cut off erased them, and this one repeats it.
        items = list(dict.fromkeys([*erased.items, *(selector.items or ())]))
        done = Lookups(tenant, erased, items, deadline)
        return [
            await _receipt("postgres", self._in_rows(done)),
            *await self._in_derived(erased),
            await _receipt("names", self._in_names(done)),
            await _receipt("vector_index", self._in_indexes(done)),
            await _receipt("graph", self._in_graph(done)),
        ]

    async def _in_rows(self, done: Lookups) -> StoreReceipt:
        left = await self._store.count(done.tenant, done.items)
        lookups = [_by_id(done.items, left), *await done.by_words(self._words)]
        return StoreReceipt.of("postgres", lookups, len(done.erased.items))

    async def _in_derived(self, erased: EraseReceipt) -> list[StoreReceipt]:
        try:
            remaining = await self._store.count_derived(erased.keys)
        except (TriviumError, TimeoutError) as error:
            return [_unverified(store, error) for store in erased.removed]
        return [
            StoreReceipt.of(store, [_by_id(erased.keys, left)], erased.removed.get(store, 0))
            for store, left in remaining.items()
        ]

    async def _in_names(self, done: Lookups) -> StoreReceipt:
        names = done.erased.names
        known = await self._store.known_names(done.tenant) if names else {}
        left = sum(name in known for name in names)
        return StoreReceipt.of("names", [_by_id(names, left)], len(names))

    async def _in_indexes(self, done: Lookups) -> StoreReceipt | None:
        index = self._space.index
        if not await index.caught_up(done.erased.token, done.deadline):
            return None
        left = await index.count(done.tenant, done.items)
        lookups = [_by_id(done.items, left), *await done.by_vector(self._space)]
        return StoreReceipt.of("vector_index", lookups)

    async def _in_graph(self, done: Lookups) -> StoreReceipt | None:
        if not await self._consistency.graph_has_seen(done.erased.token, done.deadline):
            return None
        left = await self._graph.count(done.tenant, done.items)
        lookups = [_by_id(done.items, left), *await done.by_names(self._graph)]
        return StoreReceipt.of("graph", lookups)


def _by_id(asked: Sized, left: int) -> Lookup:
    return Lookup(LookupKey.ID, len(asked), left)


async def _receipt(store: str, verification: Awaitable[StoreReceipt | None]) -> StoreReceipt:
    """The receipt of a store; the verification of one that has not caught up is None."""
    try:
        return await verification or StoreReceipt(
            store, verified=False, reason="the store has not applied the erasure yet"
        )
    except (TriviumError, TimeoutError) as error:
        return _unverified(store, error)


def _unverified(store: str, error: Exception) -> StoreReceipt:
    return StoreReceipt(
        store, verified=False, reason=str(error) or "the store did not answer in time"
    )
