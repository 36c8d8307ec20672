"""Watches the changes of a tenant, for as long as a stream of them may last."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable

from serving.domain.budget import Deadline
from serving.domain.changes import ChangesPosition
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import OverloadedError
from serving.domain.items.records import TenantName
from serving.ports.change_feed import ChangeFeed, ChangesRead

WATCH_S = 900.0
HEARTBEAT_S = 20.0
POLL_S = 5.0
"""How long a notification of changes that is lost delays them."""
RETRY_S = 1.0
PAUSE_S = 0.25
"""The shortest interval between two looks of a stream that has read all."""


class ChangeWatcher:
    """Streams changes until a stream is old enough, or the service ends."""

    def __init__(self, feed: ChangeFeed, clock: Callable[[], float] = time.monotonic) -> None:
        self._feed = feed
        self._clock = clock
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Ends all streams, each with its last position."""
        self._ending.set()

    async def watch(
        self, tenant: TenantName, after: ConsistencyToken | ChangesPosition | None, limit: int
    ) -> AsyncGenerator[ChangesRead, None]:
        """Yields the position that it begins at, changes as they come, and the position at the end.

        Without a change it yields the position every `HEARTBEAT_S`.

        Raises:
            ChangesGoneError: The log does not have the changes after `after` any more.
            StoreUnavailableError: PostgreSQL cannot be reached.
            OverloadedError: The service ends, and begins no more streams.
        """
        if self._ending.is_set():
            raise OverloadedError("the list of open streams", RETRY_S)
        position = await self._first(after)
        end, heartbeat = Deadline.after(WATCH_S, self._clock), Deadline.after(0, self._clock)
        while not (end.passed or self._ending.is_set()):
            heard = self._feed.heard()
            read = await self._feed.read(tenant, position, limit)
            position = read.position
            if read.changes or heartbeat.passed:
                yield read
                heartbeat = Deadline.after(HEARTBEAT_S, self._clock)
            if read.last:
                await self._pause(heard, min(POLL_S, heartbeat.remaining(), end.remaining()))
        yield ChangesRead((), position)

    async def _first(self, after: ConsistencyToken | ChangesPosition | None) -> ChangesPosition:
        if after is None:
            return await self._feed.now()
        return after if isinstance(after, ChangesPosition) else await self._feed.after_write(after)

    async def _pause(self, heard: int, timeout_s: float) -> None:
        """Waits for a change of any tenant, but for the end of the service at most."""
        waiting = asyncio.create_task(self._wait(heard, timeout_s))
        ending = asyncio.create_task(self._ending.wait())
        try:
            await asyncio.wait({waiting, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            ending.cancel()

    async def _wait(self, heard: int, timeout_s: float) -> None:
        await asyncio.sleep(PAUSE_S)
        await self._feed.wait_beyond(heard, timeout_s)
