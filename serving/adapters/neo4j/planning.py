"""Query planning ahead of use, in the background."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import LiteralString

from serving.domain.errors import DependencyError

logger = logging.getLogger(__name__)

PlanSearch = Callable[[LiteralString], Awaitable[None]]


class BackgroundPlanning:
    """Plans searches one after another in a background task.

    A failure is logged; the first caller of that search then waits for its plan.
    """

    def __init__(self, plan: PlanSearch) -> None:
        self._plan = plan
        self._unplanned: deque[LiteralString] = deque()
        self._task: asyncio.Task[None] | None = None

    def start(self, searches: Iterable[LiteralString]) -> None:
        """Plans these searches in their order, including those planned before."""
        self._unplanned = deque(searches)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._plan_all(), name="graph-planning")

    async def stop(self, within_s: float) -> None:
        """Stops planning; the current search may take `within_s` and is then cancelled."""
        self._unplanned.clear()
        if self._task is not None:
            # Not cancelled at once: the driver would leak a connection that it is opening.
            await asyncio.wait([self._task], timeout=within_s)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _plan_all(self) -> None:
        while self._unplanned:
            try:
                await self._plan(self._unplanned.popleft())
            except DependencyError as error:
                logger.warning("search plan not prepared", extra={"reason": str(error)})
            except Exception:
                logger.exception("search plan not prepared")
