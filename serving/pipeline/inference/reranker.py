"""Shares one cross-encoder between many callers: a short queue and one thread that runs it.

No call waits for the model to be loaded: until then calls are rejected with the reason. A failed
load is retried by the first call after a pause.

A call is tokenized on arrival, in a separate thread, so that its time can be predicted before the
model runs: a call that would be answered too late is rejected at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import Self

from serving.domain.budget import Deadline
from serving.domain.errors import (
    DependencyError,
    NotReadyError,
    OverloadedError,
    TooSlowError,
)
from serving.pipeline.inference.device_watch import Watch
from serving.pipeline.inference.latency_model import LatencyModel
from serving.pipeline.inference.worker import Worker, deliver, fail, is_wanted
from serving.ports.reranking import CrossEncoder, Pair

logger = logging.getLogger(__name__)

NAME = "reranker"
LOADING = "the model is being loaded"
RETRY_AFTER_S = 60.0
"""The pause after a failed load."""

CLOSE_S = 5.0
"""Enough for a batch to end; the load of a model is not waited for."""

MAX_WAITING = 256
"""Calls in the queue, without the one being scored. It bounds the memory only: a call whose turn
would come too late for its deadline is rejected on arrival, however short the queue is."""


class Call:
    """One question with its texts, and the logits computed so far."""

    def __init__(self, query: str, texts: Sequence[str], deadline: Deadline) -> None:
        self.query = query
        self.texts = texts
        self.deadline = deadline
        self.future: Future[list[float]] = Future()
        self._pairs: Sequence[Pair] | None = None
        self._left: list[int] = []
        self._logits = [math.nan] * len(texts)

    def is_wanted(self) -> bool:
        return is_wanted(self.future, self.deadline)

    @property
    def is_tokenized(self) -> bool:
        """Whether it may begin."""
        return self._pairs is not None

    @property
    def tokens_left(self) -> int:
        """The number of tokens left to score; 0 before it is tokenized."""
        pairs = self._pairs or ()
        return sum(len(pairs[place]) for place in tuple(self._left))

    def take_pairs(self, pairs: Sequence[Pair]) -> None:
        """Stores the tokens of its texts."""
        if len(pairs) != len(self.texts):
            raise ValueError(f"{len(self.texts)} texts have {len(pairs)} rows")
        self._left = sorted(range(len(pairs)), key=lambda place: len(pairs[place]), reverse=True)
        self._pairs = pairs

    def next_batch(self, token_budget: int) -> tuple[list[int], list[Pair]]:
        """Takes the shortest texts left, as many as fit into a batch: their places and tokens.

        Padding counts; one text may have more tokens than the budget.
        """
        assert self._pairs is not None, "a call began before its tokens were known: this is a bug"
        places: list[int] = []
        while self._left:
            padded = (len(places) + 1) * len(self._pairs[self._left[-1]])
            if places and padded > token_budget:
                break
            places.append(self._left.pop())
        return places, [self._pairs[place] for place in places]

    def put(self, places: Sequence[int], logits: Sequence[float]) -> None:
        """Stores logits; the last complete the call, or fail if one of all is not finite."""
        for place, logit in zip(places, logits, strict=True):
            self._logits[place] = logit
        if self._left:
            return
        if not all(map(math.isfinite, self._logits)):
            raise ArithmeticError("the logits are not finite")
        deliver(self.future, self._logits)


class RerankQueue:
    """Calls, first in, first out, each scored batch by batch; and the model that scores them.

    `QueuedReranker` names its arguments.
    """

    def __init__(
        self,
        load: Callable[[], CrossEncoder],
        *,
        watch: Watch = nullcontext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._watch = watch
        self._clock = clock
        self._latency_model = LatencyModel()
        self._waiting: deque[Call] = deque()
        self._running: Call | None = None
        self._lock = threading.Lock()
        """Guards the state of the model, and removal from `_waiting`."""
        self._cross_encoder: CrossEncoder | None = None
        self._is_loading = True
        self._why_not = LOADING
        self._retry_at = -math.inf

    # ------------------------------------------------------------ for callers

    @property
    def is_loading(self) -> bool:
        return self._is_loading

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def seconds_to_room(self) -> float:
        """The predicted time until the next call starts."""
        running = self._running
        seconds = self._latency_model.seconds(running.tokens_left) if running is not None else None
        return max(0.01, seconds if seconds is not None else 0.1)

    def require_model(self) -> None:
        """Starts to load the model if it is not loaded and a retry is due.

        Raises `NotReadyError` as long as it is not loaded; `why` says why.
        """
        with self._lock:
            if self._cross_encoder is not None:
                return
            if self._clock() >= self._retry_at:
                self._is_loading = True
                self._why_not = LOADING
            raise NotReadyError(NAME, self._why_not)

    def add(self, call: Call) -> None:
        """Queues a call; it starts after `tokenize` was called with it."""
        self._waiting.append(call)

    def forget(self, call: Call) -> None:
        """Removes a call that has not started, because its caller has given up."""
        with self._lock, contextlib.suppress(ValueError):
            self._waiting.remove(call)

    # ------------------------------------------------------------ in the tokenizer's thread

    def tokenize(self, call: Call) -> None:
        """Tokenizes a call, and rejects it if it could not be answered in time.

        It is called for one call at a time, in the order in which they were added.
        """
        assert self._cross_encoder is not None, "calls need a loaded model: this is a bug"
        if not call.is_wanted():
            return
        try:
            pairs = self._cross_encoder.tokenize(call.query, call.texts)
            self._reject_if_late(call, self._tokens_before(call) + sum(map(len, pairs)))
            call.take_pairs(pairs)
        except Exception as error:
            _fail(call, error)

    def _tokens_before(self, call: Call) -> int:
        running = self._running
        tokens = running.tokens_left if running is not None else 0
        for other in tuple(self._waiting):
            if other is call:
                break
            tokens += other.tokens_left
        return tokens

    def _reject_if_late(self, call: Call, tokens: int) -> None:
        predicted_s = self._latency_model.seconds(tokens)
        left_s = call.deadline.remaining()
        if predicted_s is not None and predicted_s > left_s:
            self._latency_model.doubt()
            fail(call.future, TooSlowError(predicted_s, left_s))

    # ------------------------------------------------------------ in the worker's thread

    @property
    def has_work(self) -> bool:
        return self._is_loading or self._running is not None or self._first_may_begin()

    def _first_may_begin(self) -> bool:
        first = next(iter(tuple(self._waiting)), None)
        return first is not None and (first.is_tokenized or first.future.done())

    def step(self) -> None:
        """Loads the model, or starts a call, or scores one batch of it."""
        if self._cross_encoder is None:
            self._try_to_load()
        elif self._running is None:
            self._begin_next()
        else:
            self._continue(self._running, self._cross_encoder)

    def fail_all(self, error: Exception) -> None:
        if self._running is not None:
            fail(self._running.future, error)
        while self._waiting:
            fail(self._waiting.popleft().future, error)

    def _try_to_load(self) -> None:
        try:
            cross_encoder = self._load()
        except Exception as error:
            why = f"cannot be loaded ({type(error).__name__})"
            if isinstance(error, DependencyError):
                why = error.why
            logger.warning("reranker unavailable", extra={"reason": why})
            logger.debug("loading the reranker failed", exc_info=error)
            with self._lock:
                self._is_loading = False
                self._why_not = why
                self._retry_at = self._clock() + RETRY_AFTER_S
            return
        with self._lock:
            self._cross_encoder = cross_encoder
            self._is_loading = False

    def _begin_next(self) -> None:
        with self._lock:
            # The call may have been removed since.
            call = self._waiting.popleft() if self._first_may_begin() else None
        if call is None:
            return
        if call.is_wanted():
            self._reject_if_late(call, call.tokens_left)
        if not call.future.done():
            self._running = call

    def _continue(self, call: Call, cross_encoder: CrossEncoder) -> None:
        if call.is_wanted():
            try:
                self._score_batch(call, cross_encoder)
            except Exception as error:
                _fail(call, error)
        if call.future.done():
            self._running = None

    def _score_batch(self, call: Call, cross_encoder: CrossEncoder) -> None:
        places, pairs = call.next_batch(cross_encoder.device().token_budget)
        started = self._clock()
        with self._watch():
            logits = cross_encoder.score(pairs)
        self._latency_model.learn(sum(map(len, pairs)), self._clock() - started)
        call.put(places, logits)


def _fail(call: Call, error: Exception) -> None:
    # Only its type: a tokenizer's error may contain the text.
    why = f"the model failed ({type(error).__name__})"
    logger.warning("rerank failed", extra={"reason": why})
    fail(call.future, DependencyError(NAME, why))


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
