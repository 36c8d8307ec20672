"""Shares one cross-encoder between many callers: a short queue and one thread that runs it.

No call waits for the model to be loaded: until then calls are rejected with the reason. A failed
load is retried by the first call after a pause.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Self

from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError
from serving.pipeline.inference.device_watch import Watch
from serving.pipeline.inference.rerank_queue import NAME, Call, RerankQueue
from serving.pipeline.inference.worker import Worker
from serving.ports.reranking import CrossEncoder

CLOSE_S = 5.0
"""Enough for a batch to end; the load of a model is not waited for."""

MAX_WAITING = 256
"""Calls in the queue, without the one being scored. It bounds the memory only: a call whose turn
would come too late for its deadline is rejected on arrival, however short the queue is."""


class QueuedReranker:
    """A `Reranker` over a `CrossEncoder`, which is loaded and run by one dedicated thread.

    It can be used from any event loop and blocks none. Work that was cancelled, or whose deadline
    has passed, is dropped before it runs and between two batches; calls that would be late are
    rejected. A batch has as many texts of similar length as fit the device's token budget.

    `load` makes the cross-encoder, which takes seconds or minutes. If it raises `DependencyError`,
    callers see its reason.
    """

    def __init__(
        self,
        load: Callable[[], CrossEncoder],
        *,
        watch: Watch = nullcontext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue = RerankQueue(load, watch=watch, clock=clock)
        # One thread, so that calls start in order.
        self._tokenizer = ThreadPoolExecutor(1, "reranker-tokenizer")
        self._worker = Worker(NAME)
        self._worker.start(self._queue)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Rejects new work, fails queued work, and returns when the model is idle.

        A load under way is not waited for: its thread ends by itself.
        """
        await self._worker.close(CLOSE_S)
        await asyncio.to_thread(self._tokenizer.shutdown, cancel_futures=True)

    @property
    def is_loading(self) -> bool:
        return self._queue.is_loading

    async def rerank(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[float]:
        """Returns the logits; raises `DependencyError` when the reranker is closed."""
        if not texts:
            return []
        call = Call(query, tuple(texts), deadline)
        with self._worker.changing():
            self._queue.require_model()
            if self._queue.waiting >= MAX_WAITING:
                room_s = round(self._queue.seconds_to_room, 3)
                raise OverloadedError("the reranker's queue", room_s)
            self._queue.add(call)
            self._tokenizer.submit(self._tokenize, call)
        try:
            async with asyncio.timeout(deadline.remaining()):
                return await asyncio.wrap_future(call.future)
        finally:
            self._queue.forget(call)

    def _tokenize(self, call: Call) -> None:
        self._queue.tokenize(call)
        self._worker.wake()
