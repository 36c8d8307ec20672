"""A lock that is held by many readers or by one writer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SharedLock:
    """A readers-writer lock that prefers the writer.

    Readers that arrive while a writer waits are queued behind it, so a steady stream of searches
    cannot starve a change.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._sharing = 0
        self._alone = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Holds the lock together with other readers."""
        with self._condition:
            self._condition.wait_for(lambda: not self._alone)
            self._sharing += 1
        try:
            yield
        finally:
            with self._condition:
                self._sharing -= 1
                if not self._sharing:
                    self._condition.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the lock exclusively. Only one thread at a time may request this."""
        with self._condition:
            self._alone = True
            self._condition.wait_for(lambda: not self._sharing)
        try:
            yield
        finally:
            with self._condition:
                self._alone = False
                self._condition.notify_all()
