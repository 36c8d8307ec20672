"""One cross-encoder, many callers: a short queue before the one thread that loads and runs it.

Nobody waits for the model. Until it is there calls are refused with the reason, and whoever asks
does without. A failed load is tried again, but only after a pause and only if somebody asks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError
from serving.pipeline.lane import Lane
from serving.pipeline.rerank_queue import NAME, Call, RerankQueue
from serving.ports import CrossEncoder

RETRY_AFTER_S = 60.0
CLOSE_S = 5.0
"""A batch is over by then, and the load of a model is not waited for."""


class QueuedReranker:
    """A `Reranker` over a `CrossEncoder`, which one thread of its own loads and uses.

    It may be used from any event loop and blocks none. Work that was cancelled, or whose deadline
    passed, is dropped before it runs and between two batches; what would pass its deadline is
    refused. A batch has as many texts of like length as the model's device takes at once.

    Args:
        load: Makes the cross-encoder, in seconds or minutes. A `DependencyError` of it says in
            words why there is none; callers see them.
        load_at_start: Whether to load now; else when the first call comes.
        most_waiting: Calls that may wait, without the one that is being read.
        retry_after_s: How long a failed load is not tried again.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        load: Callable[[], CrossEncoder],
        *,
        load_at_start: bool = False,
        most_waiting: int = 8,
        retry_after_s: float = RETRY_AFTER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_waiting = most_waiting
        self._queue = RerankQueue(
            load, load_at_start=load_at_start, retry_after_s=retry_after_s, clock=clock
        )
        # One: calls begin in their order, and a tokenizer of transformers is changed by its use.
        self._tokenizer = ThreadPoolExecutor(1, "reranker-tokenizer")
        self._lane = Lane(NAME)
        self._lane.start(self._queue)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Refuses new work, fails what waits, and returns when the model is at rest.

        A model that is being loaded is left to it: the thread ends by itself.
        """
        await self._lane.close(CLOSE_S)
        await asyncio.to_thread(self._tokenizer.shutdown, cancel_futures=True)

    @property
    def is_loading(self) -> bool:
        """Whether the model is being loaded."""
        return self._queue.is_loading

    async def rerank(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[float]:
        """The raw logit of each text's relevance, in their order; higher is better.

        Raises:
            NotReadyError: There is no model, or it is being loaded; `why` says which.
            DependencyError: The model failed, or the reranker is closed.
            OverloadedError: The queue is full.
            TooSlowError: It would take longer than until the deadline.
            TimeoutError: The deadline passed first.
        """
        if not texts:
            return []
        call = Call(query, tuple(texts), deadline)
        with self._lane.changing():
            self._admit()
            self._queue.add(call)
            self._tokenizer.submit(self._tokenize, call)
        try:
            async with asyncio.timeout(deadline.remaining()):
                return await asyncio.wrap_future(call.future)
        finally:
            self._queue.forget(call)

    def _admit(self) -> None:
        self._queue.require_model()
        if self._queue.waiting >= self._most_waiting:
            raise OverloadedError("the reranker's queue", round(self._queue.seconds_to_room, 3))

    def _tokenize(self, call: Call) -> None:
        self._queue.tokenize(call)
        self._lane.wake()
