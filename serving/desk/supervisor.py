"""Runs the stores of a desk: starts them, starts one again that has ended, and stops them."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Protocol

logger = logging.getLogger(__name__)

EVERY_S = 2.0
LONGEST_PAUSE_S = 60.0


class Server(Protocol):
    """A store that the desk starts."""

    def start(self) -> str:
        """Starts the server; returns its address."""

    def restart_if_dead(self) -> None:
        """Starts the server again, at its address, if it has ended; raises if it does not start."""

    def stop(self) -> None:
        """Stops the server if it was started."""


@contextlib.contextmanager
def supervised(
    server: Server, without_it: str, report: Callable[[str], None]
) -> Iterator[Future[str]]:
    """Runs a server in a thread; yields its address, or the error of its start.

    On exit a start is waited for, and then the server is stopped: a stop during the start would
    find no server, which would keep running. `without_it` is as in `keep_running`.
    """
    address: Future[str] = Future()
    stopping = threading.Event()

    def run() -> None:
        try:
            address.set_result(server.start())
        except BaseException as error:
            address.set_exception(error)
        else:
            keep_running(server, without_it, report, stopping.wait)

    try:
        with ThreadPoolExecutor(max_workers=1) as thread:
            thread.submit(run)
            try:
                yield address
            finally:
                stopping.set()
    finally:
        server.stop()


def keep_running(
    server: Server,
    without_it: str,
    report: Callable[[str], None],
    is_stopping_after: Callable[[float], bool],
) -> None:
    """Starts a server again whenever it has ended, until `is_stopping_after` some seconds.

    After a failed start the next one is tried later, with pauses that double up to a minute. Each
    failure is reported with what does not work `without_it`, a sentence.
    """
    pause_s = EVERY_S
    while not is_stopping_after(pause_s):
        try:
            server.restart_if_dead()
            pause_s = EVERY_S
        except CancelledError:
            return
        except Exception as error:
            logger.debug("store not started", exc_info=error)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            report(f"{error}. {without_it} Next attempt in {pause_s:.0f} s")
