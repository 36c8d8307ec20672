"""Work that runs during the body of an async context."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager

logger = logging.getLogger(__name__)

MEASURE_EVERY_S = 5.0


@asynccontextmanager
async def in_background(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Runs a coroutine as a task, which is cancelled when the body ends."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def repeated(
    work: Callable[[], Awaitable[None]], every_s: float, failure: str, level: int = logging.WARNING
) -> AsyncIterator[None]:
    """Calls `work` at once and then every few seconds while the body runs.

    An error does not end the repetition; it is logged with `failure` as its message.
    """

    async def repeat() -> None:
        while True:
            try:
                await work()
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                logger.log(level, failure, extra={"reason": reason})
            await asyncio.sleep(every_s)

    async with in_background(repeat()):
        yield


def measured_repeatedly(
    measure: Callable[[], Awaitable[None]],
) -> AbstractAsyncContextManager[None]:
    """Calls `measure` every few seconds while the body runs.

    A store may be down or not migrated yet, and then there is nothing to measure.
    """
    return repeated(measure, MEASURE_EVERY_S, "measurement failed", logging.INFO)
