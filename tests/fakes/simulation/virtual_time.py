"""An event loop whose clock jumps to whatever is due next, so that hours pass in no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class _Selector(selectors.DefaultSelector):
    """Waits for nothing: what it would wait for a timer is added to the clock."""

    def __init__(self, advance: Callable[[float], None]) -> None:
        super().__init__()
        self._advance = advance

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("nothing is due: every task waits for another")
        self._advance(timeout)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop that begins at 0 seconds and never sleeps. It does no I/O."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Selector(self._advance))

    def time(self) -> float:
        """The seconds that have passed."""
        return self._now

    def _advance(self, seconds: float) -> None:
        self._now += seconds


def run_in_virtual_time(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine to its end on a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def in_virtual_time(
    main: Callable[Given, Coroutine[Any, Any, Result]],
) -> Callable[Given, Result]:
    """Makes a test run on a loop of its own in virtual time."""

    @wraps(main)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        return run_in_virtual_time(main(*args, **kwargs))

    return run
