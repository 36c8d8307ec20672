"""What a twin on a CPU does beyond what any index or embedder does: wait in readiness, cheaply.

A cold twin holds nothing until it is first asked, and lets go of it when it has not been for long.
An embedder's twin knows how long it takes, and refuses what would come too late.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, Self, TypeVar

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError, NotReadyError, TooSlowError
from serving.domain.records import ItemId, TenantName
from serving.pipeline.pace import Pace
from serving.ports import (
    IndexAnswer,
    IndexStatus,
    QuestionEmbedder,
    VectorIndex,
    VectorLike,
    WantedNeighbours,
)

logger = logging.getLogger(__name__)

RELEASE_AFTER_S = 600.0
"""A cold twin that nobody has asked for so long is not needed: what it stood in for is back."""

PROBE = "Who said hello to whom, and when did they say it?"
PROBE_S = 60.0

Opened = TypeVar("Opened")


class OnDemand(Generic[Opened]):
    """Opens something when it is first wanted, and closes it when it has not been for long.

    Use it as `async with`, which closes it in any case.

    Args:
        open_it: Opens it; takes as long as it takes.
        release_after_s: How long it stays unasked.
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
        self._keeping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)

    @property
    def opened(self) -> Opened | None:
        """What is open; None if nothing is."""
        return self._opened

    def wanted(self) -> Opened | None:
        """What is open; if nothing is, it begins to be opened."""
        self._wanted_at = time.monotonic()
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(self._keep())
        return self._opened

    async def _keep(self) -> None:
        try:
            async with self._open() as opened:
                self._opened = opened
                while (left_s := self._unasked_until() - time.monotonic()) > 0:  # noqa: ASYNC110
                    await asyncio.sleep(left_s)
                self._opened = None
        except Exception:
            # Whatever it cannot be opened for, it is tried again when it is next wanted.
            logger.exception("a twin cannot be opened")
        finally:
            self._opened = None

    def _unasked_until(self) -> float:
        return self._wanted_at + self._release_after_s


class ColdIndex:
    """A `VectorIndex` that holds nothing until it is first searched.

    Args:
        index: Opens it.
    """

    def __init__(self, index: OnDemand[VectorIndex]) -> None:
        self._index = index

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        """Finds the wanted neighbours of a vector.

        Raises:
            NotReadyError: It is being filled, from this call on if nobody has asked before.
        """
        index = self._index.wanted()
        if index is None:
            raise NotReadyError("index", "it begins to be filled")
        return await index.search(vector, wanted, deadline)

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items it still holds: none, if it holds nothing."""
        index = self._index.opened
        return 0 if index is None else await index.count(tenant, items)

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        """Waits until it has seen the write. One that holds nothing will be filled with it."""
        index = self._index.opened
        return True if index is None else await index.caught_up(token, deadline)

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        """Its state."""
        index = self._index.opened
        if index is None:
            return IndexStatus(ready=False, vector_count=0, epoch=0, reason="it holds nothing")
        return await index.status(tenant)


class ColdEmbedder:
    """A `QuestionEmbedder` whose model is loaded when it is first asked.

    Args:
        embedder: Loads it.
    """

    def __init__(self, embedder: OnDemand[QuestionEmbedder]) -> None:
        self._embedder = embedder

    async def embed_query(self, text: str, deadline: Deadline) -> VectorLike:
        """Embeds a question.

        Raises:
            NotReadyError: The model is being loaded, from this call on if nobody has asked before.
        """
        embedder = self._embedder.wanted()
        if embedder is None:
            raise NotReadyError("embedder", "the model is being loaded")
        return await embedder.embed_query(text, deadline)


class PunctualEmbedder:
    """A `QuestionEmbedder` that refuses at once what would come too late.

    How long it takes is learned from the questions that it embedded, over the characters of a
    question and of those before it. On a CPU a model of 4B parameters takes longer than any
    question has: to begin with it would only let the next one wait.

    Args:
        embedder: Does the work.
        clock: Monotonic seconds.
    """

    def __init__(
        self, embedder: QuestionEmbedder, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._embedder = embedder
        self._clock = clock
        self._pace = Pace()
        self._waiting = 0

    async def measure(self) -> None:
        """Embeds a question, so that it is known how long the first one will take."""
        for _ in range(2):  # what is loaded at the first pass does not count
            self._pace = Pace()
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
            # It takes longer than that, which is to be known too.
            self._pace.learn(until_done, self._clock() - started)
            raise
        finally:
            self._waiting -= size
        self._pace.learn(until_done, self._clock() - started)
        return vector

    def _require_time(self, characters: int, deadline: Deadline) -> None:
        predicted_s, left_s = self._pace.seconds(characters), deadline.remaining()
        if predicted_s is not None and predicted_s > left_s:
            self._pace.doubt()
            raise DependencyError("embedder", str(TooSlowError(predicted_s, left_s)))
