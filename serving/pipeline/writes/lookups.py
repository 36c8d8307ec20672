"""Searches for erased items, as questions do: by their words, names and vectors.

A search finds what no id leads to any more, such as a row that only an inverted list still holds.
No text is embedded: its vector is known, and the cache of questions would keep the text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from enum import Enum, auto

from serving.domain.budget import Deadline
from serving.domain.items.records import Item, ItemId, Segment, TenantName, time_of
from serving.domain.items.text import text_of
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.leg_options import Walk, WordsSearch
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.index.vector_space import VectorSpace
from serving.ports.graph import Graph
from serving.ports.memory_store import EraseReceipt
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
