"""A lock that many may share or one may have alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SharedLock:
    """Searches share it; who changes what they read has it alone.

    Who wants it alone goes before those that come to share it later, so that searches
    without end do not keep a change away.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._sharing = 0
        self._alone = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Holds it together with others."""
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
        """Holds it alone; one thread at a time may ask for that."""
        with self._condition:
            self._alone = True
            self._condition.wait_for(lambda: not self._sharing)
        try:
            yield
        finally:
            with self._condition:
                self._alone = False
                self._condition.notify_all()
