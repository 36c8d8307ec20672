"""Ctrl-C and SIGTERM: noted while things start and stop, and acted on where that is safe.

An exception in the middle of a call loses what the call was about to hand over: a Ray that was
half started when a signal raised cannot be stopped, and brings the process down with it.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Takes the signals over while its block runs; belongs to the main thread.

    A signal raises nothing by itself, except within `at_once`: `check` raises in its stead. Only
    the first counts, since what comes after it finds everything being stopped.

    Args:
        when_noted: Is called by the first signal. It may come in the middle of anything, so
            buffered output is not safe there.
    """

    def __init__(self, when_noted: Callable[[], None]) -> None:
        self.noted = False
        self._when_noted = when_noted
        self._raises = False
        self._before: list[signal._HANDLER] = []

    def __enter__(self) -> Interruption:
        self._before = [signal.signal(number, self._note) for number in SIGNALS]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in zip(SIGNALS, self._before, strict=True):
            signal.signal(number, handler)

    def check(self) -> None:
        """Does nothing, unless a signal has come.

        Raises:
            KeyboardInterrupt: One has.
        """
        if self.noted:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Makes the signal itself raise within the block, or one that came before it."""
        self._raises = True
        try:
            self.check()
            yield
        finally:
            self._raises = False

    def wait(self) -> None:
        """Waits for a signal."""
        with contextlib.suppress(KeyboardInterrupt), self.at_once():
            threading.Event().wait()

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self.noted:
            return
        self.noted = True
        self._when_noted()
        if self._raises:
            raise KeyboardInterrupt
