"""Maintains an index engine in a thread of its own.

It does not use the searches' thread pool: building lists takes minutes, and the end of a process
must not wait for it. The thread is a daemon, so it ends with its process. Searches go before it:
on Linux, where each thread has a priority of its own, its is lower.
"""

from __future__ import annotations

import logging
import os
import sys
import threading

from serving.pipeline.inference.device_watch import Watch
from serving.ports.index_engine import IndexEngine

logger = logging.getLogger(__name__)

MAINTAIN_EVERY_S = 1.0

NICENESS = 10
"""Added to that of the process. Training takes a core for minutes."""


class Maintenance:
    """Calls `IndexEngine.maintain` every `MAINTAIN_EVERY_S`, from `start` to `end`."""

    def __init__(self, engine: IndexEngine, watch: Watch) -> None:
        self._engine = engine
        self._watch = watch
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="index-maintenance", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Closes the engine, which interrupts a round under way; returns at once."""
        self._ended.set()
        self._engine.close()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _run(self) -> None:
        if sys.platform == "linux":
            os.nice(NICENESS)
        while not self._ended.is_set():
            try:
                with self._watch():
                    self._engine.maintain()
            except Exception:
                # Searches go on with the lists there are; the next round may succeed.
                logger.exception("index maintenance failed")
            self._ended.wait(MAINTAIN_EVERY_S)
