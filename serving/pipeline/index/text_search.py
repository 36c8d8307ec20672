"""Search by text: a question is embedded once, and its vector is looked up in an index."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.pipeline.index.vector_cache import VectorCache
from serving.ports.embedding import QuestionEmbedder, VectorLike
from serving.ports.vector_index import IndexAnswer, VectorIndex, WantedNeighbours


class _Question(NamedTuple):
    tenant: TenantName
    text: str


@dataclass(slots=True)
class _Entry:
    """A vector in the making, and how many callers wait for it."""

    task: asyncio.Task[VectorLike]
    waiting: int = 0


class QuestionVectors:
    """A single-flight cache of question vectors.

    Every leg that looks a question up asks for its vector in a call of its own, so that the failure
    or delay of one leg does not affect another. The question is embedded once for all of them. A
    vector depends only on the text and the model, and an embedder keeps its model, so vectors
    never expire. Each tenant has its own: a fast answer would tell it that another one asked.

    Args:
        embedder: Embeds the questions.
        cache: Where vectors are kept.
    """

    def __init__(self, embedder: QuestionEmbedder, cache: VectorCache | None = None) -> None:
        self._embedder = embedder
        self._cache = cache or VectorCache()
        self._entries: dict[_Question, _Entry] = {}

    async def of(self, tenant: TenantName, text: str, deadline: Deadline) -> VectorLike:
        """Returns the vector of a tenant's question.

        Raises:
            DependencyError: The embedder cannot be reached.
            OverloadedError: The embedder's queue is full.
            TimeoutError: The deadline passed first.
        """
        question = _Question(tenant, text)
        if (cached := self._cache.get(*question)) is not None:
            return cached
        while True:
            entry = self._entry(question, deadline)
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

    def _entry(self, question: _Question, deadline: Deadline) -> _Entry:
        entry = self._entries.get(question)
        if entry is None:
            entry = _Entry(asyncio.create_task(self._make(question, deadline)))
            self._entries[question] = entry
        return entry

    async def _make(self, question: _Question, deadline: Deadline) -> VectorLike:
        try:
            vector = await self._embedder.embed_query(question.text, deadline)
        finally:
            # An error is for the callers that wait now, and not for later ones.
            self._drop(question, asyncio.current_task())
        self._cache.add(*question, vector)
        return vector

    def _drop(self, question: _Question, task: asyncio.Task[VectorLike] | None) -> None:
        """Removes the entry of a task, unless another one has taken its place."""
        entry = self._entries.get(question)
        if entry is not None and entry.task is task:
            del self._entries[question]


class EmbeddedSearch:
    """A `TextSearch` over an embedder and an index.

    Args:
        vectors: Makes the vectors.
        index: Where they are looked up.
    """

    def __init__(self, vectors: QuestionVectors, index: VectorIndex) -> None:
        self._vectors = vectors
        self._index = index

    async def search(self, text: str, wanted: WantedNeighbours, deadline: Deadline) -> IndexAnswer:
        """Embeds a question and finds its nearest neighbours."""
        started = time.perf_counter()
        vector = await self._vectors.of(wanted.scope.tenant, text, deadline)
        embedding_s = time.perf_counter() - started
        answer = await self._index.search(vector, wanted, deadline)
        return replace(answer, embedding_s=embedding_s)
