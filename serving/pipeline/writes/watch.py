"""Watches the changes of a tenant, for as long as a stream of them lasts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable

from serving.domain.budget import Deadline
from serving.domain.changes import ChangesPosition
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import TenantName
from serving.ports.change_feed import ChangeFeed, ChangesRead

WATCH_S = 5.0
"""Shorter than a replica may take to end, so that each stream ends with its last position. A reader
that goes on in a new one costs the service a read, as a look for a lost notification would."""
PAUSE_S = 0.25
"""The shortest interval between two looks of a stream that has read all."""


class ChangeWatcher:
    """Streams changes until a stream is old enough."""

    def __init__(self, feed: ChangeFeed, clock: Callable[[], float] = time.monotonic) -> None:
        self._feed = feed
        self._clock = clock

    async def watch(
        self, tenant: TenantName, after: ConsistencyToken | ChangesPosition | None, limit: int
    ) -> AsyncGenerator[ChangesRead, None]:
        """Yields the first read, changes as they come, and the position at the end.

        Raises:
            ChangesGoneError: The log does not have the changes after `after` any more.
            StoreUnavailableError: PostgreSQL cannot be reached.
        """
        position, end = await self._first(after), Deadline.after(WATCH_S, self._clock)
        begun = False
        while not end.passed:
            heard = self._feed.heard()
            read = await self._feed.read(tenant, position, limit)
            position = read.position
            if read.changes or not begun:
                yield read
                begun = True
            if read.last:
                await asyncio.sleep(PAUSE_S)
                await self._feed.wait_beyond(heard, end.remaining())
        yield ChangesRead((), position)

    async def _first(self, after: ConsistencyToken | ChangesPosition | None) -> ChangesPosition:
        if after is None:
            return await self._feed.now()
        return after if isinstance(after, ChangesPosition) else await self._feed.after_write(after)
