"""Search by text: a question is embedded once, and its vector is looked up in an index."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.pipeline.index.failover import Failover
from serving.pipeline.index.vector_cache import VectorCache
from serving.ports.embedding import QuestionEmbedder, VectorLike
from serving.ports.vector_index import IndexAnswer, VectorIndex, WantedNeighbours

EMBEDDER = "embedder"

PROBE = "?"
"""The question whose vector shows that an embedder answers."""


@dataclass(frozen=True, slots=True)
class QuestionVector:
    """The vector of a question, and whether the embedder's standby made it."""

    vector: VectorLike
    by_standby: bool = False


class _Question(NamedTuple):
    tenant: TenantName
    text: str


@dataclass(slots=True)
class _Entry:
    """A vector in the making, and how many callers wait for it."""

    task: asyncio.Task[QuestionVector]
    waiting: int = 0


class QuestionVectors:
    """A single-flight cache of question vectors.

    Every leg that looks a question up asks for its vector in a call of its own, so that the failure
    or delay of one leg does not affect another. The question is embedded once for all of them. A
    vector depends only on the text and the model, and an embedder keeps its model, so vectors
    never expire. Each tenant has its own: a fast answer would tell it that another one asked.

    Args:
        embedder: Embeds the questions.
        standby: Embeds them while `embedder` is unavailable. Its vectors are not cached: an answer
            would be reported as the standby's long after the embedder is back.
        remote: Whether the embedder may be unreachable, which is then noticed also without a
            standby, so that questions fail at once.
        cache: Where vectors are kept.
    """

    def __init__(
        self,
        embedder: QuestionEmbedder,
        standby: QuestionEmbedder | None = None,
        *,
        remote: bool = False,
        cache: VectorCache | None = None,
    ) -> None:
        self._embedder = embedder
        self._failover = (
            Failover(EMBEDDER, embedder, standby, self._embedder_answers)
            if remote or standby is not None
            else None
        )
        self._cache = cache or VectorCache()
        self._entries: dict[_Question, _Entry] = {}

    async def of(self, tenant: TenantName, text: str, deadline: Deadline) -> QuestionVector:
        """Returns the vector of a tenant's question.

        Raises:
            DependencyError: Neither the embedder nor its standby can embed it, or not in time.
            OverloadedError: The embedder's queue is full.
            TimeoutError: The deadline passed first.
        """
        question = _Question(tenant, text)
        if (cached := self._cache.get(*question)) is not None:
            return QuestionVector(cached)
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

    async def _make(self, question: _Question, deadline: Deadline) -> QuestionVector:
        try:
            made = await self._embed(question.text, deadline)
        finally:
            # An error is for the callers that wait now, and not for later ones.
            self._drop(question, asyncio.current_task())
        if not made.by_standby:
            self._cache.add(*question, made.vector)
        return made

    async def _embed(self, text: str, deadline: Deadline) -> QuestionVector:
        if self._failover is None:
            return QuestionVector(await self._embedder.embed_query(text, deadline))
        vector, by_standby = await self._failover.ask(
            lambda embedder, until: embedder.embed_query(text, until), deadline
        )
        return QuestionVector(vector, by_standby)

    def _drop(self, question: _Question, task: asyncio.Task[QuestionVector] | None) -> None:
        """Removes the entry of a task, unless another one has taken its place."""
        entry = self._entries.get(question)
        if entry is not None and entry.task is task:
            del self._entries[question]

    async def _embedder_answers(self, until: Deadline) -> bool:
        async with asyncio.timeout(until.remaining()):
            await self._embedder.embed_query(PROBE, until)
        return True


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
        question = await self._vectors.of(wanted.scope.tenant, text, deadline)
        embedding_s = time.perf_counter() - started
        answer = await self._index.search(question.vector, wanted, deadline)
        standbys = (EMBEDDER, *answer.standbys) if question.by_standby else answer.standbys
        return replace(answer, embedding_s=embedding_s, standbys=standbys)
