"""Erases items, and verifies in every store that they are gone.

Stores are asked for erased items by id, and as questions ask: by words, names and vectors. That
finds what no id leads to any more, such as a row that only an inverted list still holds. No text is
embedded: its vector is known, and the cache of questions would keep the text.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence, Sized
from dataclasses import dataclass
from enum import Enum, auto

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import TriviumError
from serving.domain.items.records import Item, ItemId, ItemKind, Segment, TenantName, time_of
from serving.domain.items.text import text_of
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.leg_options import Walk, WordsSearch
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.index.vector_space import VectorSpace
from serving.ports.change_log import Consistency
from serving.ports.graph import Graph
from serving.ports.memory_store import EraseReceipt, MemoryStore, Selector
from serving.ports.resident_view import ResidentView
from serving.ports.vector_index import WantedNeighbours
from serving.ports.words import LexicalSearch

DEPTH = 50
"""The most candidates of a search: an item comes before what only resembles it."""


class LookupKey(Enum):
    """By what a store is asked for an item."""

    ID = auto()
    TEXT = auto()
    VECTOR = auto()


@dataclass(frozen=True, slots=True)
class Lookup:
    """For how many items a store was asked in one way, and how many erased ones came."""

    key: LookupKey
    asked: int
    found: int


@dataclass(frozen=True, slots=True)
class Lookups:
    """An erasure to verify: the searches for its sample, and the `items` that must be gone.

    An item is asked for at the time of which it speaks, so that a fact holds which is over. Each
    search raises `TimeoutError` if the deadline passes first.
    """

    tenant: TenantName
    erased: EraseReceipt
    items: Sequence[ItemId]
    deadline: Deadline

    async def by_words(self, words: LexicalSearch) -> list[Lookup]:
        """Asks for the words of each segment."""
        segments = [each.item for each in self.erased.sample if isinstance(each.item, Segment)]
        found: set[ItemId] = set()
        for segment in segments:
            query = Query(scope=self._scope(segment), text=text_of(segment))
            found |= _items(await words.search(query, WordsSearch(), DEPTH, DEPTH, self.deadline))
        return self._lookup(LookupKey.TEXT, segments, found)

    async def by_names(self, graph: Graph) -> list[Lookup]:
        """Asks a graph, which has no texts, for the names of each item that is not hidden."""
        named = [
            (each.item, names)
            for each in self.erased.sample
            if not each.hidden and (names := ", ".join(_names_of(each.item)))
        ]
        found: set[ItemId] = set()
        for item, names in named:
            query = Query(scope=self._scope(item), text=names)
            yields = Yields.EVIDENCE if isinstance(item, Segment) else Yields.FACTS
            found |= _items(await graph.search(query, Walk(), None, DEPTH, yields, self.deadline))
        return self._lookup(LookupKey.TEXT, named, found)

    async def by_vector(self, space: VectorSpace) -> list[Lookup]:
        """Asks the index for the vector of each item that has one of its model."""
        if not any(each.vectors for each in self.erased.sample):
            return []
        async with asyncio.timeout(self.deadline.remaining()):
            model = (await space.embedder.model()).fingerprint
        of_model = [each for each in self.erased.sample if model in each.vectors]
        found: set[ItemId] = set()
        for each in of_model:
            wanted = WantedNeighbours(each.item.item.kind, self._scope(each.item), DEPTH)
            answer = await space.index.search(each.vectors[model], wanted, self.deadline)
            found |= _items(answer.candidates)
        return self._lookup(LookupKey.VECTOR, of_model, found)

    def _scope(self, item: Item) -> Scope:
        return Scope(tenant=self.tenant, as_of=time_of(item))

    def _lookup(self, key: LookupKey, asked: Sized, found: set[ItemId]) -> list[Lookup]:
        """None if nothing was asked: after a kill, texts and vectors are known no longer."""
        left = found.intersection(self.erased.items)
        return [Lookup(key, len(asked), len(left))] if asked else []


def _items(candidates: Iterable[Candidate]) -> set[ItemId]:
    return {candidate.item for candidate in candidates}


def _names_of(item: Item) -> list[str]:
    if isinstance(item, Segment):
        return [*item.entities, *([item.entity] if item.entity else [])]
    return [item.subject, item.object]


@dataclass(frozen=True, slots=True)
class StoreReceipt:
    """The removals of one store, and their verification.

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
        every = tuple(lookups)
        remaining = max(lookup.found for lookup in every)
        return cls(store, verified=True, remaining=remaining, removed=removed, lookups=every)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The erased items, and the verification of each store."""

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
        view: ResidentView | None = None,
    ) -> None:
        self._store = store
        self._words = words
        self._space = space
        self._graph = graph
        self._consistency = consistency
        self._view = view

    async def forget(self, tenant: TenantName, selector: Selector, deadline: Deadline) -> Forgotten:
        """Erases what is selected; a store that does not follow in time is not verified.

        Raises `StoreUnavailableError` if nothing was erased.
        """
        erased = await self._store.erase(tenant, selector)
        # The named ones too: a call that was cut off erased them, and this one repeats it.
        items = list(dict.fromkeys([*erased.items, *(selector.items or ())]))
        done = Lookups(tenant, erased, items, deadline)
        kinds = Counter(item.kind for item in erased.items)
        receipts = [
            await _receipt("postgres", self._in_rows(done), len(erased.items)),
            *await self._in_derived(erased),
            await _receipt("names", self._in_names(done), len(erased.names)),
            await _receipt("vector_index", self._in_indexes(done)),
            await _receipt("graph", self._in_graph(done)),
        ]
        if self._view is not None:
            receipts.append(await _receipt("memory", self._in_memory(self._view, done)))
        return Forgotten(kinds[ItemKind.SEGMENT], kinds[ItemKind.FACT], receipts, erased.token)

    async def _in_rows(self, done: Lookups) -> list[Lookup]:
        left = await self._store.count(done.tenant, done.items)
        return [_by_id(done.items, left), *await done.by_words(self._words)]

    async def _in_derived(self, erased: EraseReceipt) -> list[StoreReceipt]:
        try:
            remaining = await self._store.count_derived(erased.keys)
        except (TriviumError, TimeoutError) as error:
            return [_unverified(store, error) for store in erased.removed]
        return [
            StoreReceipt.of(store, [_by_id(erased.keys, left)], erased.removed.get(store, 0))
            for store, left in remaining.items()
        ]

    async def _in_names(self, done: Lookups) -> list[Lookup]:
        names = done.erased.names
        known = await self._store.known_names(done.tenant) if names else {}
        return [_by_id(names, sum(name in known for name in names))]

    async def _in_indexes(self, done: Lookups) -> list[Lookup] | None:
        index = self._space.index
        if not await index.caught_up(done.erased.token, done.deadline):
            return None
        left = await index.count(done.tenant, done.items)
        return [_by_id(done.items, left), *await done.by_vector(self._space)]

    async def _in_graph(self, done: Lookups) -> list[Lookup] | None:
        if not await self._consistency.graph_has_seen(done.erased.token, done.deadline):
            return None
        left = await self._graph.count(done.tenant, done.items)
        return [_by_id(done.items, left), *await done.by_names(self._graph)]

    async def _in_memory(self, view: ResidentView, done: Lookups) -> list[Lookup] | None:
        if not await view.caught_up(done.tenant, done.erased.token, done.deadline):
            return None
        return [_by_id(done.items, view.count(done.tenant, done.items))]


def _by_id(asked: Sized, left: int) -> Lookup:
    return Lookup(LookupKey.ID, len(asked), left)


async def _receipt(
    store: str, verification: Awaitable[Sequence[Lookup] | None], removed: int = 0
) -> StoreReceipt:
    """The receipt of a store; the lookups of one that has not caught up are None."""
    try:
        if (lookups := await verification) is not None:
            return StoreReceipt.of(store, lookups, removed)
    except (TriviumError, TimeoutError) as error:
        return _unverified(store, error)
    return StoreReceipt(store, verified=False, reason="the store has not applied the erasure yet")


def _unverified(store: str, error: Exception) -> StoreReceipt:
    reason = str(error) or "the store did not answer in time"
    return StoreReceipt(store, verified=False, reason=reason)
