"""Ctrl-C and SIGTERM: recorded while parts start and stop, handled where that is safe.

An exception raised inside a call loses its result: a Ray cluster that was half started when a
signal raised cannot be stopped, and takes the process down.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Handles the signals inside a `with` block; only for the main thread.

    A signal does not raise by itself, except inside `at_once`; `check` raises instead. Only the
    first signal counts, because everything is being stopped after it. It calls `when_noted`, which
    can interrupt any code, so it must not use buffered output.
    """

    def __init__(self, when_noted: Callable[[], None]) -> None:
        self.noted = False
        self._when_noted = when_noted
        self._raises = False
        self._before: list[signal._HANDLER] = []

    def __enter__(self) -> Interruption:
        self._before = [signal.signal(number, self._note) for number in SIGNALS]
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in zip(SIGNALS, self._before, strict=True):
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises `KeyboardInterrupt` if a signal has arrived."""
        if self.noted:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Raises immediately inside the block, also for a signal that arrived before it."""
        self._raises = True
        try:
            self.check()
            yield
        finally:
            self._raises = False

    def wait(self, tend: Callable[[], None] = lambda: None, every_s: float | None = None) -> None:
        """Waits for a signal, and calls `tend` at once and in intervals, which none interrupts."""
        while not self.noted:
            tend()
            with contextlib.suppress(KeyboardInterrupt), self.at_once():
                threading.Event().wait(every_s)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self.noted:
            return
        self.noted = True
        self._when_noted()
        if self._raises:
            raise KeyboardInterrupt
