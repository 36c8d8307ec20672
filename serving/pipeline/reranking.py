"""One cross-encoder, many callers: a short queue before the one thread that loads and runs it.

Nobody waits for the model. Until it is there calls are refused with the reason, and whoever asks
does without. A failed load is tried again, but only after a pause and only if somebody asks.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError, NotReadyError, OverloadedError
from serving.pipeline.futures import deliver, fail
from serving.ports import CrossEncoder

logger = logging.getLogger(__name__)

NAME = "reranker"
LOADING = "the model is being loaded"
RETRY_AFTER_S = 60.0
CLOSE_S = 5.0
"""A step is over by then, and the load of a model is not waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankLimits:
    """How much may wait, and how much is done between two looks at the caller.

    `waiting_calls` are those that have not begun. `step_characters` counts question and text, and
    is passed by the last text of a step at most; a CPU gains nothing from more.
    """

    waiting_calls: int = 8
    step_characters: int = 2048


class _Call:
    """One question with its texts, and the logits made so far."""

    def __init__(self, query: str, texts: Sequence[str], deadline: Deadline) -> None:
        self.query = query
        self.texts = texts
        self.future: Future[list[float]] = Future()
        self._deadline = deadline
        self._logits = [math.nan] * len(texts)

    def is_wanted(self) -> bool:
        """Whether somebody still waits; whoever is late is told so."""
        if self._deadline.passed:
            fail(self.future, TimeoutError())
        return not self.future.done()

    def steps(self, characters: int) -> Iterator[list[int]]:
        """The places of the texts, those of like length together."""
        step: list[int] = []
        budget = characters
        for place in sorted(range(len(self.texts)), key=lambda place: len(self.texts[place])):
            step.append(place)
            budget -= len(self.query) + len(self.texts[place])
            if budget <= 0:
                yield step
                step, budget = [], characters
        if step:
            yield step

    def put(self, step: Sequence[int], logits: Sequence[float]) -> None:
        """Notes the logits of a step."""
        for place, logit in zip(step, logits, strict=True):
            self._logits[place] = logit

    def complete(self) -> None:
        """Hands the logits over."""
        if not all(map(math.isfinite, self._logits)):
            raise ArithmeticError("the logits are not finite")
        deliver(self.future, self._logits)


class QueuedReranker:
    """A `Reranker` over a `CrossEncoder`, which its one thread loads and owns.

    It may be used from any event loop and blocks none. Work that was cancelled, or whose deadline
    passed, is dropped before it runs and between two steps.

    Args:
        load: Makes the cross-encoder, in seconds or minutes. A `DependencyError` of it says in
            words why there is none; callers see them.
        load_at_start: Whether to load now; else when the first call comes.
        limits: How much is done at once.
        retry_after_s: How long a failed load is not tried again.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        load: Callable[[], CrossEncoder],
        *,
        load_at_start: bool = False,
        limits: RerankLimits | None = None,
        retry_after_s: float = RETRY_AFTER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._limits = limits or RerankLimits()
        self._retry_after_s = retry_after_s
        self._clock = clock
        self._queue: deque[_Call] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._cross_encoder: CrossEncoder | None = None
        self._loading = load_at_start
        self._why_not = LOADING
        self._retry_at = -math.inf
        self._seconds_per_call = 0.1
        self._thread = threading.Thread(target=self._work, name=NAME, daemon=True)
        self._thread.start()

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
        with self._changed:
            self._closed = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join, CLOSE_S)

    @property
    def is_loading(self) -> bool:
        """Whether the model is being loaded."""
        return self._loading

    async def rerank(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[float]:
        """The raw logit of each text's relevance, in their order; higher is better.

        Raises:
            NotReadyError: There is no model, or it is being loaded; `why` says which.
            DependencyError: The model failed, or the reranker is closed.
            OverloadedError: The queue is full.
            TimeoutError: The deadline passed first.
        """
        if not texts:
            return []
        call = _Call(query, tuple(texts), deadline)
        with self._changed:
            self._admit()
            self._queue.append(call)
            self._changed.notify()
        try:
            async with asyncio.timeout(deadline.remaining()):
                return await asyncio.wrap_future(call.future)
        finally:
            self._forget(call)

    def _admit(self) -> None:
        if self._closed:
            raise _closed()
        if self._cross_encoder is None:
            self._ask_for_model()
            raise NotReadyError(NAME, self._why_not)
        if len(self._queue) >= self._limits.waiting_calls:
            raise OverloadedError("the reranker's queue", round(self._seconds_per_call, 3))

    def _forget(self, call: _Call) -> None:
        """Makes room for another, if the call is still in the queue: nobody waits for it now."""
        with self._changed:
            if call in self._queue:
                self._queue.remove(call)

    def _ask_for_model(self) -> None:
        if self._clock() >= self._retry_at:
            self._loading = True
            self._why_not = LOADING
            self._changed.notify()

    def _work(self) -> None:
        try:
            while self._wait_for_work():
                if self._cross_encoder is None:
                    self._try_to_load()
                elif (call := self._next_call()) is not None:
                    self._answer(call, self._cross_encoder)
        finally:
            # Whatever ends the thread, nobody may wait for it for ever.
            with self._changed:
                self._closed = True
            while (call := self._next_call()) is not None:
                fail(call.future, _closed())

    def _wait_for_work(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._loading or self._queue)
            return not self._closed

    def _next_call(self) -> _Call | None:
        with self._changed:
            return self._queue.popleft() if self._queue else None

    def _try_to_load(self) -> None:
        try:
            cross_encoder = self._load()
        except Exception as error:
            self._note_failed_load(error)
            return
        with self._changed:
            self._cross_encoder = cross_encoder
            self._loading = False

    def _note_failed_load(self, error: Exception) -> None:
        why = f"cannot be loaded ({type(error).__name__})"
        if isinstance(error, DependencyError):
            why = error.why
        logger.warning("there is no reranker", extra={"reason": why})
        logger.debug("the load of the reranker failed", exc_info=error)
        with self._changed:
            self._loading = False
            self._why_not = why
            self._retry_at = self._clock() + self._retry_after_s

    def _answer(self, call: _Call, cross_encoder: CrossEncoder) -> None:
        started = time.perf_counter()
        try:
            self._score(call, cross_encoder)
        except Exception as error:
            # Only its type: an error of a tokenizer may hold the text.
            why = f"the model failed ({type(error).__name__})"
            logger.warning("a rerank failed", extra={"reason": why})
            fail(call.future, DependencyError(NAME, why))
        self._seconds_per_call = max(0.01, time.perf_counter() - started)

    def _score(self, call: _Call, cross_encoder: CrossEncoder) -> None:
        for step in call.steps(self._limits.step_characters):
            if not call.is_wanted():
                return
            if self._closed:
                fail(call.future, _closed())
                return
            texts = [call.texts[place] for place in step]
            call.put(step, cross_encoder.score(call.query, texts))
        call.complete()


def _closed() -> DependencyError:
    return DependencyError(NAME, "closed")
