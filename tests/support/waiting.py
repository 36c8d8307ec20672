"""Waiting for what a process brings about by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

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


async def until_async(condition: Callable[[], Awaitable[bool]]) -> None:
    """Asks until a condition holds, and leaves the processor to others in between."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110 - there is no event to wait for
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
