"""Standbys on a CPU: parts that are opened on demand, and an embedder that rejects late work.

A cold standby holds nothing until its first request, and is released after a long idle time. The
standby of an embedder predicts how long it will take, and rejects requests it would answer late.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Generic, Self, TypeVar

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError, NotReadyError, TooSlowError
from serving.domain.items.records import ItemId, TenantName
from serving.domain.questions.query import Query
from serving.pipeline.inference.latency_model import LatencyModel
from serving.ports.embedding import QuestionEmbedder, VectorLike
from serving.ports.vector_index import IndexAnswer, IndexStatus, WantedNeighbours, WholeIndex

logger = logging.getLogger(__name__)

RELEASE_AFTER_S = 600.0
"""A cold standby without requests for so long is not needed: its primary is back."""

PROBE = "Who said hello to whom, and when did they say it?"
PROBE_S = 60.0

Opened = TypeVar("Opened")


class OnDemand(Generic[Opened]):
    """Opens a resource when it is first needed, and closes it after a long idle time.

    It is an async context manager, which closes the resource in any case.

    Args:
        open_it: Opens the resource; may take minutes.
        release_after_s: The idle time after which the resource is closed.
    """

    def __init__(
        self,
        open_it: Callable[[], AbstractAsyncContextManager[Opened]],
        release_after_s: float = RELEASE_AFTER_S,
    ) -> None:
        self._open = open_it
        self._release_after_s = release_after_s
        self._opened: Opened | None = None
        self._wanted_at = 0.0
        self._holding: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._holding is not None:
            self._holding.cancel()
            await asyncio.gather(self._holding, return_exceptions=True)

    @property
    def opened(self) -> Opened | None:
        """The resource; None if it is not open."""
        return self._opened

    def wanted(self) -> Opened | None:
        """Returns the resource; if it is not open, starts to open it and returns None."""
        self._wanted_at = time.monotonic()
        if self._holding is None or self._holding.done():
            self._holding = asyncio.create_task(self._hold())
        return self._opened

    async def _hold(self) -> None:
        try:
            async with self._open() as opened:
                self._opened = opened
                while (left_s := self._close_at() - time.monotonic()) > 0:  # noqa: ASYNC110
                    await asyncio.sleep(left_s)
                self._opened = None
        except Exception:
            # The next request tries again.
            logger.exception("standby could not be opened")
        finally:
            self._opened = None

    def _close_at(self) -> float:
        return self._wanted_at + self._release_after_s


class ColdIndex:
    """A `WholeIndex` that is filled when it is first searched.

    Args:
        index: Opens the index.
    """

    def __init__(self, index: OnDemand[WholeIndex]) -> None:
        self._index = index

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        """Finds the wanted neighbours of a vector.

        Raises:
            NotReadyError: The index is being filled; the first call starts that.
        """
        return await self._filled().search(vector, wanted, deadline)

    async def related(
        self, query: Query, seeds: Sequence[ItemId], depth: int, deadline: Deadline
    ) -> IndexAnswer:
        """Finds segments that share mentions with the seeds.

        Raises:
            NotReadyError: The index is being filled; the first call starts that.
        """
        return await self._filled().related(query, seeds, depth, deadline)

    def _filled(self) -> WholeIndex:
        index = self._index.wanted()
        if index is None:
            raise NotReadyError("index", "it begins to be filled")
        return index

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        index = self._index.opened
        return 0 if index is None else await index.count(tenant, items)

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        """Waits until the index has seen the write; one that is not open will be filled with it."""
        index = self._index.opened
        return True if index is None else await index.caught_up(token, deadline)

    async def outdated_snapshots(self, write: ConsistencyToken, deadline: Deadline) -> int:
        """Returns how many outdated snapshots there are; one that is not open writes none."""
        index = self._index.opened
        return 0 if index is None else await index.outdated_snapshots(write, deadline)

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        index = self._index.opened
        if index is None:
            return IndexStatus(ready=False, vector_count=0, epoch=0, reason="it holds nothing")
        return await index.status(tenant)


class ColdEmbedder:
    """A `QuestionEmbedder` whose model is loaded at the first request.

    Args:
        embedder: Loads the model.
    """

    def __init__(self, embedder: OnDemand[QuestionEmbedder]) -> None:
        self._embedder = embedder

    async def embed_query(self, text: str, deadline: Deadline) -> VectorLike:
        """Embeds a question.

        Raises:
            NotReadyError: The model is being loaded; the first call starts that.
        """
        embedder = self._embedder.wanted()
        if embedder is None:
            raise NotReadyError("embedder", "the model is being loaded")
        return await embedder.embed_query(text, deadline)


class PunctualEmbedder:
    """A `QuestionEmbedder` that immediately rejects requests it would answer late.

    The time is predicted from earlier questions, by the characters of a question and of those
    queued before it. On a CPU a model of 4B parameters takes longer than any deadline, so starting
    would only delay the next request.

    Args:
        embedder: Does the work.
        clock: Monotonic seconds.
    """

    def __init__(
        self, embedder: QuestionEmbedder, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._embedder = embedder
        self._clock = clock
        self._latency_model = LatencyModel()
        self._waiting = 0

    async def measure(self) -> None:
        """Embeds a question, so that the time of the first request can be predicted."""
        for _ in range(2):  # the first pass includes one-off loading
            self._latency_model = LatencyModel()
            with contextlib.suppress(TimeoutError):
                await self.embed_query(PROBE, Deadline.after(PROBE_S))

    async def embed_query(self, text: str, deadline: Deadline) -> VectorLike:
        """Embeds a question.

        Raises:
            DependencyError: It would take longer than until the deadline.
            OverloadedError: The queue is full.
            TimeoutError: The deadline passed first.
        """
        size = len(text) + 1
        until_done = self._waiting + size
        self._require_time(until_done, deadline)
        self._waiting += size
        started = self._clock()
        try:
            vector = await self._embedder.embed_query(text, deadline)
        except TimeoutError:
            # A lower bound of the time is worth learning too.
            self._latency_model.learn(until_done, self._clock() - started)
            raise
        finally:
            self._waiting -= size
        self._latency_model.learn(until_done, self._clock() - started)
        return vector

    def _require_time(self, characters: int, deadline: Deadline) -> None:
        predicted_s, left_s = self._latency_model.seconds(characters), deadline.remaining()
        if predicted_s is not None and predicted_s > left_s:
            self._latency_model.doubt()
            raise DependencyError("embedder", str(TooSlowError(predicted_s, left_s)))
