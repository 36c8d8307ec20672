"""Waiting for what a process brings about by itself."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Self, TypeVar

Result = TypeVar("Result")

POLL_S = 0.1

PATIENCE_S = 180.0
"""Only what never comes about takes so long; a busy machine may take minutes."""


def until(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    """Asks until a condition holds."""
    give_up_at = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up_at, "the condition does not come about"
        time.sleep(POLL_S)


def first(ask: Callable[[], Result], holds: Callable[[Result], bool]) -> Result:
    """Asks until an answer is as it should be, and returns it."""
    answers: list[Result] = []

    def asked() -> bool:
        answers.append(ask())
        return holds(answers[-1])

    until(asked)
    return answers[-1]


async def until_async(condition: Callable[[], Awaitable[bool] | bool]) -> None:
    """Asks until a condition holds, and leaves the processor to others in between."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            holds = condition()
            if holds if isinstance(holds, bool) else await holds:
                return
            await asyncio.sleep(POLL_S)


async def begin(work: Awaitable[Result]) -> asyncio.Task[Result]:
    """Starts work and lets it get as far as its queue."""
    task = asyncio.ensure_future(work)
    assert isinstance(task, asyncio.Task)
    await asyncio.sleep(0)
    return task


async def cancel(task: asyncio.Task[Result]) -> None:
    """Cancels a task and waits until it has left its queue."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Gate:
    """Holds a thread until the test lets it go on."""

    def __init__(self) -> None:
        self._entered = threading.Semaphore(0)
        self._released = threading.Semaphore(0)

    @classmethod
    def open(cls) -> Self:
        """One that holds nobody, and says who came."""
        gate = cls()
        gate.release(1000)
        return gate

    def pass_through(self) -> None:
        """Called by the thread."""
        self._entered.release()
        if not self._released.acquire(timeout=10):
            raise AssertionError("the test never released the thread")

    async def entered(self) -> None:
        """Waits until the thread is held."""
        assert await asyncio.to_thread(self._entered.acquire, timeout=10), "no thread came"

    def release(self, times: int = 1) -> None:
        """Lets the thread go on so often, now or when it comes."""
        self._released.release(times)
