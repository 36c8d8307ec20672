"""Keeping an index engine in shape, in a thread of its own.

Not in the pool of the searches: putting rows into lists takes minutes, and what a process ends
must not wait for it. So the thread is a daemon, which goes with its process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from serving.ports import IndexEngine

logger = logging.getLogger(__name__)

MAINTAIN_EVERY_S = 1.0


class Maintenance:
    """Maintains an engine again and again, from `start` to `end`.

    Args:
        engine: What to maintain.
        then: Called in the same thread after each round.
        every_s: The pause between.
    """

    def __init__(
        self,
        engine: IndexEngine,
        then: Callable[[], None] = lambda: None,
        *,
        every_s: float = MAINTAIN_EVERY_S,
    ) -> None:
        self._engine = engine
        self._then = then
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="index-maintenance", daemon=True)

    def start(self) -> None:
        """Begins; returns at once."""
        self._thread.start()

    def end(self) -> None:
        """Closes the engine, and so ends what is under way; returns at once."""
        self._ended.set()
        self._engine.close()

    def join(self, timeout_s: float) -> None:
        """Waits until the thread has ended, or for so long."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._engine.maintain()
                self._then()
            except Exception:
                # Searches go on with what there is; the next round may do better.
                logger.exception("index maintenance failed")
            self._ended.wait(self._every_s)
