"""What waits for a cross-encoder, which is loaded when it is asked for.

A call is tokenized when it comes, in a thread of its own, so that what it costs is known before
the model begins: whoever would be answered too late is told so at once, and does without.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError, NotReadyError, TooSlowError
from serving.pipeline.futures import deliver, fail
from serving.pipeline.pace import Pace
from serving.ports import CrossEncoder, Pair

logger = logging.getLogger(__name__)

NAME = "reranker"
LOADING = "the model is being loaded"


class Call:
    """One question with its texts, and the logits made so far."""

    def __init__(self, query: str, texts: Sequence[str], deadline: Deadline) -> None:
        self.query = query
        self.texts = texts
        self.deadline = deadline
        self.future: Future[list[float]] = Future()
        self._pairs: Sequence[Pair] | None = None
        self._left: list[int] = []
        self._logits = [math.nan] * len(texts)

    def is_wanted(self) -> bool:
        """Whether somebody still waits; whoever is late is told so."""
        if self.deadline.passed:
            fail(self.future, TimeoutError())
        return not self.future.done()

    @property
    def is_tokenized(self) -> bool:
        """Whether it may begin."""
        return self._pairs is not None

    @property
    def is_complete(self) -> bool:
        """Whether all texts have their logits."""
        return self.is_tokenized and not self._left

    @property
    def tokens_left(self) -> int:
        """The tokens of what is still to be read, as far as they are known."""
        pairs = self._pairs or ()
        return sum(len(pairs[place]) for place in tuple(self._left))

    def take_pairs(self, pairs: Sequence[Pair]) -> None:
        """Notes the tokens of its texts."""
        if len(pairs) != len(self.texts):
            raise ValueError(f"{len(self.texts)} texts have {len(pairs)} rows")
        self._left = sorted(range(len(pairs)), key=lambda place: len(pairs[place]), reverse=True)
        self._pairs = pairs

    def next_batch(self, token_budget: int) -> tuple[list[int], list[Pair]]:
        """The shortest texts that are left, by their places and as rows, as many as go at once.

        Args:
            token_budget: The most tokens, padding included; one text may have more.
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
        """Notes the logits of a batch."""
        for place, logit in zip(places, logits, strict=True):
            self._logits[place] = logit

    def hand_over(self) -> None:
        """Gives the logits to whoever waits.

        Raises:
            ArithmeticError: They are not finite.
        """
        if not all(map(math.isfinite, self._logits)):
            raise ArithmeticError("the logits are not finite")
        deliver(self.future, self._logits)


class RerankQueue:
    """Calls in the order they came, each read batch by batch, and the model that reads them.

    Args:
        load: Makes the cross-encoder, in seconds or minutes.
        load_at_start: Whether to load before anybody asks.
        retry_after_s: How long a failed load is not tried again.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        load: Callable[[], CrossEncoder],
        *,
        load_at_start: bool,
        retry_after_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._retry_after_s = retry_after_s
        self._clock = clock
        self._pace = Pace()
        self._waiting: deque[Call] = deque()
        self._running: Call | None = None
        self._lock = threading.Lock()
        """Of the model that there is or is not, and of what leaves `_waiting`."""
        self._cross_encoder: CrossEncoder | None = None
        self._is_loading = load_at_start
        self._why_not = LOADING
        self._retry_at = -math.inf

    # ------------------------------------------------------------ for callers

    @property
    def is_loading(self) -> bool:
        """Whether the model is being loaded."""
        return self._is_loading

    @property
    def waiting(self) -> int:
        """The calls that have not begun."""
        return len(self._waiting)

    @property
    def seconds_to_room(self) -> float:
        """When the next call may begin, as far as can be predicted."""
        running = self._running
        seconds = self._pace.seconds(running.tokens_left) if running is not None else None
        return max(0.01, seconds if seconds is not None else 0.1)

    def require_model(self) -> None:
        """Has the model loaded if there is none, and it is time for another try.

        Raises:
            NotReadyError: There is none yet; `why` says why.
        """
        with self._lock:
            if self._cross_encoder is not None:
                return
            if self._clock() >= self._retry_at:
                self._is_loading = True
                self._why_not = LOADING
            raise NotReadyError(NAME, self._why_not)

    def add(self, call: Call) -> None:
        """Lets a call wait; it begins when `tokenize` has been called with it."""
        self._waiting.append(call)

    def forget(self, call: Call) -> None:
        """Makes room for another, if the call still waits: nobody waits for it now."""
        with self._lock, contextlib.suppress(ValueError):
            self._waiting.remove(call)

    # ------------------------------------------------------------ in the tokenizer's thread

    def tokenize(self, call: Call) -> None:
        """Makes the rows of a call, which is refused if it could not be answered in time.

        Calls come here one by one, in the order in which they were added.
        """
        assert self._cross_encoder is not None, "calls are admitted to a model: this is a bug"
        if not call.is_wanted():
            return
        try:
            pairs = self._cross_encoder.tokenize(call.query, call.texts)
            self._refuse_if_too_slow(call, self._tokens_before(call) + sum(map(len, pairs)))
            call.take_pairs(pairs)
        except Exception as error:
            _fail(call, error)

    def _tokens_before(self, call: Call) -> int:
        """The tokens to be read until the last one of a call that waits."""
        running = self._running
        tokens = running.tokens_left if running is not None else 0
        for other in tuple(self._waiting):
            if other is call:
                break
            tokens += other.tokens_left
        return tokens

    def _refuse_if_too_slow(self, call: Call, tokens: int) -> None:
        predicted_s = self._pace.seconds(tokens)
        left_s = call.deadline.remaining()
        if predicted_s is not None and predicted_s > left_s:
            self._pace.doubt()
            fail(call.future, TooSlowError(predicted_s, left_s))

    # ------------------------------------------------------------ in the lane's thread

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return self._is_loading or self._running is not None or self._first_may_begin()

    def _first_may_begin(self) -> bool:
        first = next(iter(tuple(self._waiting)), None)
        return first is not None and (first.is_tokenized or first.future.done())

    def step(self) -> None:
        """Loads the model, or begins a call, or reads one batch of it."""
        if self._cross_encoder is None:
            self._try_to_load()
        elif self._running is None:
            self._begin_next()
        else:
            self._go_on(self._running, self._cross_encoder)

    def fail_all(self, error: Exception) -> None:
        """Fails the calls that are not answered."""
        if self._running is not None:
            fail(self._running.future, error)
        while self._waiting:
            fail(self._waiting.popleft().future, error)

    def _try_to_load(self) -> None:
        try:
            cross_encoder = self._load()
        except Exception as error:
            self._note_failed_load(error)
            return
        with self._lock:
            self._cross_encoder = cross_encoder
            self._is_loading = False

    def _note_failed_load(self, error: Exception) -> None:
        why = f"cannot be loaded ({type(error).__name__})"
        if isinstance(error, DependencyError):
            why = error.why
        logger.warning("there is no reranker", extra={"reason": why})
        logger.debug("the load of the reranker failed", exc_info=error)
        with self._lock:
            self._is_loading = False
            self._why_not = why
            self._retry_at = self._clock() + self._retry_after_s

    def _begin_next(self) -> None:
        with self._lock:
            # The one that had work for the lane may have been forgotten since.
            call = self._waiting.popleft() if self._first_may_begin() else None
        if call is None:
            return
        if call.is_wanted():
            self._refuse_if_too_slow(call, call.tokens_left)
        if not call.future.done():
            self._running = call

    def _go_on(self, call: Call, cross_encoder: CrossEncoder) -> None:
        if call.is_wanted():
            try:
                self._read_batch(call, cross_encoder)
            except Exception as error:
                _fail(call, error)
        if call.future.done():
            self._running = None

    def _read_batch(self, call: Call, cross_encoder: CrossEncoder) -> None:
        places, pairs = call.next_batch(cross_encoder.device().token_budget)
        started = self._clock()
        call.put(places, cross_encoder.score(pairs))
        self._pace.learn(sum(map(len, pairs)), self._clock() - started)
        if call.is_complete:
            call.hand_over()


def _fail(call: Call, error: Exception) -> None:
    # Only its type: an error of a tokenizer may hold the text.
    why = f"the model failed ({type(error).__name__})"
    logger.warning("a rerank failed", extra={"reason": why})
    fail(call.future, DependencyError(NAME, why))
