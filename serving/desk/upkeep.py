"""Restarts the stores of a desk that have ended by themselves."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from serving.desk.embedded_postgres import PostgresStartError
from serving.domain.errors import TriviumError

FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 60.0


class RestartableServer(Protocol):
    """A store that was started."""

    def restart_if_dead(self) -> None:
        """Starts the server again, at its address, if it has ended.

        Raises:
            PostgresStartError: PostgreSQL did not start.
            TriviumError: Another server did not start.
        """


class Upkeep:
    """Keeps one store running; call `tend` in intervals.

    After a failed start the next one is tried later, with pauses that double up to a minute. Each
    failure is reported with what does not work `without_it`, a sentence.
    """

    def __init__(
        self,
        server: RestartableServer,
        without_it: str,
        report: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._without_it = without_it
        self._report = report
        self._clock = clock
        self._pause_s = FIRST_PAUSE_S
        self._not_before = clock()

    def tend(self) -> None:
        """Restarts the store if it has ended; a failure is reported and tried again later."""
        if self._clock() < self._not_before:
            return
        try:
            self._server.restart_if_dead()
            self._pause_s = FIRST_PAUSE_S
        except (TriviumError, PostgresStartError) as error:
            self._report(f"{error}. {self._without_it} Next attempt in {self._pause_s:.0f} s")
            self._not_before = self._clock() + self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)


@contextlib.contextmanager
def tended_in_background(upkeeps: Sequence[Upkeep]) -> Iterator[Callable[[], None]]:
    """Yields a function that tends all stores without waiting for a start, which may take minutes.

    A store that is being started is not tended meanwhile. On exit the starts are waited for: a stop
    during a start would find no server to stop.
    """
    starts: dict[Upkeep, Future[None]] = {}
    with ThreadPoolExecutor(max_workers=max(1, len(upkeeps))) as threads:

        def tend() -> None:
            for upkeep in upkeeps:
                start = starts.get(upkeep)
                if start is not None:
                    if not start.done():
                        continue
                    start.result()  # raises what is not expected
                starts[upkeep] = threads.submit(upkeep.tend)

        yield tend
