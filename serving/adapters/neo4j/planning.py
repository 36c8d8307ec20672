"""Has Neo4j plan searches in the background, for those who will ask them later."""

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
    """Plans searches one after another, beside whatever else is done.

    A search that cannot be planned is logged, and whoever asks it first waits for its plan.

    Args:
        plan: Has Neo4j plan a search.
    """

    def __init__(self, plan: PlanSearch) -> None:
        self._plan = plan
        self._unplanned: deque[LiteralString] = deque()
        self._task: asyncio.Task[None] | None = None

    def start(self, searches: Iterable[LiteralString]) -> None:
        """Plans all of these, in their order; also those planned before, which may be lost."""
        self._unplanned = deque(searches)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._plan_all(), name="graph-planning")

    async def stop(self, within_s: float) -> None:
        """Plans no further search; the one under way has so long to be done, or is given up."""
        self._unplanned.clear()
        if self._task is not None:
            # Not cancelled at once: the driver leaves a connection behind that it was just making.
            await asyncio.wait([self._task], timeout=within_s)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _plan_all(self) -> None:
        while self._unplanned:
            try:
                await self._plan(self._unplanned.popleft())
            except DependencyError as error:
                logger.warning("a search is not planned ahead", extra={"reason": str(error)})
            except Exception:
                logger.exception("a search is not planned ahead")
