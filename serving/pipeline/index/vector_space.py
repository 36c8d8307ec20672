"""One vector space: a model's embedder, and the index of the rows that it embedded."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.domain.questions.query import Query
from serving.domain.words.normal_form import normal_form
from serving.pipeline.index.merging import merged
from serving.ports.embedding import Embedder, Vector, VectorLike
from serving.ports.vector_index import (
    CandidateIndex,
    IndexAnswer,
    TextSearch,
    VectorIndex,
    VectorKind,
    WantedNeighbours,
    WholeIndex,
)

KEPT_QUESTIONS = 2000
"""Of all tenants: about 5 MB at 384 dimensions, and 25 with the longest questions at 1024."""


class _Question(NamedTuple):
    tenant: TenantName
    text: str


@dataclass(slots=True)
class _Entry:
    """A vector in the making, and how many callers wait for it."""

    task: asyncio.Task[VectorLike]
    waiting: int = 0


class EmbeddedSearch:
    """A `TextSearch` over an embedder and an index, with a single-flight cache of vectors.

    Every leg that looks a question up asks for its vector in a call of its own, so that the failure
    or delay of one leg does not affect another. The question is embedded once for all of them. A
    vector depends only on the text and the model, and an embedder keeps its model, so vectors
    never expire. Each tenant has its own: a fast answer would tell it that another one asked. The
    tenants that are asked together share those of the first.

    Args:
        embedder: Embeds the questions.
        index: Is searched by their vectors.
        kept: The number of questions whose vectors are kept.
    """

    def __init__(self, embedder: Embedder, index: VectorIndex, kept: int = KEPT_QUESTIONS) -> None:
        self._embedder = embedder
        self._index = index
        self._kept = kept
        self._vectors: OrderedDict[_Question, VectorLike] = OrderedDict()
        """Cached vectors, the least recently used first."""
        self._entries: dict[_Question, _Entry] = {}

    async def search(self, text: str, wanted: WantedNeighbours, deadline: Deadline) -> IndexAnswer:
        """Embeds a question and finds its nearest neighbours."""
        started = time.perf_counter()
        vector = await self.vector_of(wanted.shared_with or wanted.scope.tenant, text, deadline)
        embedding_s = time.perf_counter() - started
        answer = await self._index.search(vector, wanted, deadline)
        return replace(answer, embedding_s=embedding_s)

    def keeps(self, tenant: TenantName, text: str) -> bool:
        """Whether the vector of a tenant's question is kept."""
        return _Question(tenant, text) in self._vectors

    async def vector_of(self, tenant: TenantName, text: str, deadline: Deadline) -> VectorLike:
        """Returns the vector of a tenant's question.

        Raises:
            DependencyError: The embedder cannot be reached.
            OverloadedError: The embedder's queue is full.
            TimeoutError: The deadline passed first.
        """
        question = _Question(tenant, text)
        if (kept := self._vectors.get(question)) is not None:
            self._vectors.move_to_end(question)
            return kept
        while True:
            if (entry := self._entries.get(question)) is None:
                entry = _Entry(asyncio.create_task(self._make(question, deadline)))
                self._entries[question] = entry
            entry.waiting += 1
            try:
                # A caller that gives up must not cancel the work for the others: `wait` does not.
                await asyncio.wait((entry.task,), timeout=deadline.remaining())
                if not entry.task.done():
                    raise TimeoutError
                return entry.task.result()
            except TimeoutError:
                if deadline.passed:
                    raise
                # The deadline of the caller that came first has passed, not this one.
            finally:
                entry.waiting -= 1
                if not entry.waiting and not entry.task.done():
                    self._drop(question, entry.task)
                    entry.task.cancel()

    async def _make(self, question: _Question, deadline: Deadline) -> VectorLike:
        try:
            vector = await self._embedder.embed_query(normal_form(question.text), deadline)
        finally:
            # An error is for the callers that wait now, and not for later ones.
            self._drop(question, asyncio.current_task())
        # An encoder's array is a row of its batch, all of which would stay in memory.
        self._vectors[question] = vector.copy() if isinstance(vector, np.ndarray) else vector
        if len(self._vectors) > self._kept:
            self._vectors.popitem(last=False)
        return vector

    def _drop(self, question: _Question, task: asyncio.Task[VectorLike] | None) -> None:
        """Removes the entry of a task, unless another one has taken its place."""
        entry = self._entries.get(question)
        if entry is not None and entry.task is task:
            del self._entries[question]


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """One model's embedder, and the index of the rows that it embedded.

    `text_search` finds neighbours of a text: it embeds here and then asks `index`, or asks a
    replica that does both in one call. `whole_index` knows what stands next to an item and what
    shares its mentions; a shard does not. `candidates` is an index in this process.
    """

    embedder: Embedder
    index: VectorIndex
    text_search: TextSearch
    whole_index: WholeIndex | None = None
    candidates: CandidateIndex | None = None

    @classmethod
    def of(cls, embedder: Embedder, index: VectorIndex, kept: int = KEPT_QUESTIONS) -> Self:
        """Makes a space whose questions are embedded here."""
        return cls(embedder, index, EmbeddedSearch(embedder, index, kept))

    @classmethod
    def here(cls, embedder: Embedder, index: CandidateIndex, kept: int = KEPT_QUESTIONS) -> Self:
        """Makes a space whose index is in this process and holds all rows."""
        search = EmbeddedSearch(embedder, index, kept)
        return cls(embedder, index, search, whole_index=index, candidates=index)


class VectorLookup:
    """Looks one question up in a vector space, for every leg that needs it.

    A text that asks several questions is embedded question by question, and an item's score is that
    for the question it is nearest to: one vector of the whole text would be near to none of them.
    Those questions are `parts`. If the query has a vector, that is looked up in place of texts.
    """

    def __init__(self, query: Query, space: VectorSpace, parts: Sequence[str] = ()) -> None:
        self._space = space
        self._tenant = query.scope.tenant
        self._shared_with = query.shared_with
        self._asks_as = query.shared_with or query.scope.tenant
        self._waits = query.token is not None
        self._vector: Vector | None = None
        if query.vector is not None:
            self._vector = np.asarray(query.vector, dtype=np.float32)
        self._parts = tuple(parts) or (query.text,)
        self.whole_index = space.whole_index
        self.embedding_s = 0.0
        """The longest that a search waited for a vector."""

    @property
    def _embedded(self) -> EmbeddedSearch | None:
        """The embedder of the question; None if it has a vector, or the index embeds it."""
        search = self._space.text_search
        return search if self._vector is None and isinstance(search, EmbeddedSearch) else None

    @property
    def is_to_embed(self) -> bool:
        """Whether `embed` would make searches of this question answer without a wait."""
        search = self._embedded
        return search is not None and not all(search.keeps(self._asks_as, x) for x in self._parts)

    async def embed(self, deadline: Deadline) -> None:
        """Embeds the question, for the searches that follow; raises as they do."""
        search = self._embedded
        assert search is not None, "ask `is_to_embed` first; this is a bug"
        started = time.perf_counter()
        vector_of = partial(search.vector_of, self._asks_as, deadline=deadline)
        if len(self._parts) == 1:
            await vector_of(self._parts[0])
        else:
            await asyncio.gather(*map(vector_of, self._parts))
        self.embedding_s = max(self.embedding_s, time.perf_counter() - started)

    def is_at_hand(self, kind: VectorKind) -> bool:
        """Whether searches for the question wait for nothing."""
        return self.is_index_at_hand(kind) and not self.is_to_embed

    def is_index_at_hand(self, kind: VectorKind) -> bool:
        """Whether the index answers at once, and need not wait for a write."""
        index = self._space.candidates
        return index is not None and not self._waits and index.is_at_hand(self._tenant, kind)

    async def nearest(self, wanted: WantedNeighbours, deadline: Deadline) -> IndexAnswer:
        if self._vector is not None:
            return await self._space.index.search(self._vector, wanted, deadline)
        search = self._space.text_search.search
        wanted = replace(wanted, shared_with=self._shared_with) if self._shared_with else wanted
        if len(self._parts) == 1:
            answer = await search(self._parts[0], wanted, deadline)
        else:
            searches = (search(part, wanted, deadline) for part in self._parts)
            answer = merged(await asyncio.gather(*searches), wanted.depth)
        self.embedding_s = max(self.embedding_s, answer.embedding_s)
        return answer
