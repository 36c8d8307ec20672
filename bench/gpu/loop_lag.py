"""Measures the lag of the event loop that the service and its load share."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from bench.harness.latency import percentile

LAG_EVERY_S = 0.001


class LoopLag:
    """The lag of the event loop, sampled every millisecond."""

    def __init__(self) -> None:
        self._seconds: list[float] = []

    @property
    def p99_ms(self) -> float:
        """The 99th percentile of the lag; 0 if it was not measured."""
        seconds = sorted(self._seconds)
        return round(percentile(seconds, 0.99) * 1e3, 3) if seconds else 0.0

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Samples the lag while the body runs."""
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _watch(self) -> None:
        while True:
            due = time.perf_counter() + LAG_EVERY_S
            await asyncio.sleep(LAG_EVERY_S)
            self._seconds.append(max(0.0, time.perf_counter() - due))
