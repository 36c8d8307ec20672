"""Stops asking a dependency that does not answer, so that it costs a few questions and no more.

Closed, it lets every call pass. After `FAILURES` questions in a row it opens, and calls fail at
once. When it has been open for a while, it is half-open: the next call, or without one the last
that failed, is made as a probe, in the background, and its outcome closes it or opens it for
longer. No caller waits for it.

Written here because libraries (purgatory, aiobreaker) count failed calls, of which a question makes
several, and know no deadlines: a caller with little time would open the breaker for all.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import TypeVar

from serving.domain.budget import Deadline
from serving.domain.errors import (
    BreakerOpenError,
    NotReadyError,
    StoreUnavailableError,
    TriviumError,
    UnavailableError,
)

logger = logging.getLogger(__name__)

POSTGRES = "postgres"
DEPENDENCIES = (POSTGRES, "graph", "index", "embedder", "reranker")
"""The dependencies of an answer, each with a breaker of its own."""

FAILURES = 3
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 4.0
"""Doubled by each probe that fails."""

PROBE_S = 1.0
"""The timeout of a probe."""

MIN_PATIENCE_S = 0.020
PATIENCE_FACTOR = 3.0
"""A call that ran out of time failed only if it had lasted as long as that, and this multiple of
what calls usually take: a caller with little time, or a busy service, is no fault of the
dependency. Nor is one that lost interest, as a voice bot does with each newer transcript."""

EARLY_S = 0.010
"""The most by which a timer is early: those of uvloop count whole milliseconds."""

EARLY = 0.05
"""The share of its time by which a caller may stop waiting early: to a busy service a call comes
later than its caller began to count."""

AMPLE_S = 0.25
"""After that time it failed, whatever is usual: the first calls of a store are slow, and so are
those that wait for a write."""

MEMORY = 0.9
"""The weight of earlier calls in what calls usually take."""


class BreakerState(Enum):
    """The state of a breaker; the value is that of its metric."""

    CLOSED = 0.0
    HALF_OPEN = 0.5
    OPEN = 1.0


Answer = TypeVar("Answer")
Call = Callable[[Deadline], Awaitable[object]]
OnChange = Callable[[str, BreakerState], None]


def ignore_change(name: str, state: BreakerState) -> None:
    """Does nothing with a change."""


class Breaker:
    """The breaker of one dependency."""

    def __init__(
        self,
        name: str,
        on_change: OnChange = ignore_change,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._on_change = on_change
        self._clock = clock
        self._state = BreakerState.CLOSED
        self._failed: list[object] = []
        """The questions that failed since the last answer, at most `FAILURES`."""

        self._why = ""
        self._pause_s = FIRST_PAUSE_S
        self._open_until = 0.0
        self._usual_s = 0.0
        self._call: Call | None = None
        """The call of a probe: the one that failed or was refused last."""

        self._probe: asyncio.Task[None] | None = None
        """The event loop has only weak references to tasks."""

    @property
    def trouble(self) -> str:
        """Why the dependency is not asked; empty if it is."""
        if self._state is BreakerState.CLOSED:
            return ""
        return f"breaker open after {FAILURES} failures in a row ({self._why})"

    async def ask(
        self, question: object, deadline: Deadline, call: Callable[[Deadline], Awaitable[Answer]]
    ) -> Answer:
        """Makes a call within its deadline, unless the dependency is not asked.

        Several calls for one question count once. The first call after a pause is refused as well,
        and made as a probe of its own.

        Raises:
            BreakerOpenError: The dependency is not asked.
            TimeoutError: It did not answer in time.
        """
        if self._state is BreakerState.OPEN:
            self._call = call
        self.probe_if_due()
        if self._state is not BreakerState.CLOSED:
            raise BreakerOpenError(self.name, self.trouble)
        return await self._within(question, deadline, call)

    def probe_if_due(self) -> None:
        """Probes after a pause though no question asks, as of a graph that memory answers for."""
        if self._state is BreakerState.OPEN and self._clock() >= self._open_until and self._call:
            self._enter(BreakerState.HALF_OPEN)
            self._probe = asyncio.create_task(self._probed(self._call))

    async def _probed(self, call: Call) -> None:
        try:
            await self._within(object(), Deadline.after(PROBE_S, self._clock), call)
        except (TriviumError, TimeoutError):
            pass  # noted, if it says something of the dependency
        except Exception:
            logger.exception("probe failed unexpectedly")
        finally:
            if self._state is BreakerState.HALF_OPEN:  # it told nothing: the next may
                self._enter(BreakerState.OPEN)

    async def _within(
        self, question: object, deadline: Deadline, call: Callable[[Deadline], Awaitable[Answer]]
    ) -> Answer:
        """Makes a call, and notes how it ended."""
        started = self._clock()
        try:
            async with asyncio.timeout(deadline.remaining()):
                answer = await call(deadline)
        except (NotReadyError, BreakerOpenError, StoreUnavailableError):
            # It answers; or what it depends on is not asked, which has a breaker of its own; and a
            # refused connection to PostgreSQL fails the whole question at once.
            raise
        except (TimeoutError, asyncio.CancelledError) as error:
            # The timer of a caller with the same deadline may go off first.
            took_s = self._clock() - started
            early_s = max(EARLY_S, EARLY * took_s)
            is_over = isinstance(error, TimeoutError) or deadline.remaining() <= early_s
            least_s = min(AMPLE_S, max(MIN_PATIENCE_S, PATIENCE_FACTOR * self._usual_s))
            if is_over and took_s >= least_s:
                self._take_failure(question, call, "no answer in time")
            raise
        except UnavailableError as error:
            self._take_failure(question, call, str(error))
            raise
        self._take_answer(self._clock() - started)
        return answer

    def _take_answer(self, seconds: float) -> None:
        self._usual_s = MEMORY * self._usual_s + (1 - MEMORY) * min(seconds, AMPLE_S)
        self._failed.clear()
        self._call = None
        self._pause_s = FIRST_PAUSE_S
        self._enter(BreakerState.CLOSED)

    def _take_failure(self, question: object, call: Call, why: str) -> None:
        if len(self._failed) < FAILURES and not any(each is question for each in self._failed):
            self._failed.append(question)
        self._why, self._call = why, call
        if self._state is BreakerState.HALF_OPEN:
            self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)
        if len(self._failed) == FAILURES and self._state is not BreakerState.OPEN:
            self._open_until = self._clock() + self._pause_s
            self._enter(BreakerState.OPEN)

    def _enter(self, state: BreakerState) -> None:
        if state is not self._state:
            self._state = state
            self._on_change(self.name, state)


def all_breakers(
    on_change: OnChange = ignore_change, clock: Callable[[], float] = time.monotonic
) -> dict[str, Breaker]:
    """Returns a closed breaker of each dependency, by its name."""
    return {name: Breaker(name, on_change, clock) for name in DEPENDENCIES}


class DependencyCalls:
    """The calls that one question makes, each behind the breaker of its dependency.

    Those that fail count once for each dependency. Without breakers, for what is in this process,
    nothing stops them.
    """

    def __init__(self, breakers: Mapping[str, Breaker]) -> None:
        self._breakers = breakers

    def ask(
        self, dependency: str, deadline: Deadline, call: Callable[[Deadline], Awaitable[Answer]]
    ) -> Awaitable[Answer]:
        """Makes a call within its deadline; raises as `Breaker.ask`."""
        breaker = self._breakers.get(dependency)
        return call(deadline) if breaker is None else breaker.ask(self, deadline, call)

    def asks(self, dependency: str) -> bool:
        """Whether calls are made, or refused at once."""
        breaker = self._breakers.get(dependency)
        return breaker is None or not breaker.trouble
