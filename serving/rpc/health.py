"""The health of the service, read for all who ask and once for all who watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from serving.domain.budget import Deadline

POLL_S = 1.0
WATCH_S = 600.0


class Health:
    """Whether PostgreSQL can be reached; `ready` asks it."""

    def __init__(self, ready: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        self._ready = ready
        self._probe: asyncio.Task[bool] | None = None
        self._watchers = 0
        self._watching: asyncio.Task[None] | None = None
        self._seen: bool | None = None
        self._changed = asyncio.Event()

    async def is_ready(self) -> bool:
        """Whether it can be reached now."""
        # One at a time for all who ask: anyone may, and each takes a connection.
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._ready())
        return await asyncio.shield(self._probe)

    async def watch(self) -> AsyncGenerator[bool, None]:
        """Whether it can be reached, and each change, for `WATCH_S`; who waits costs nothing."""
        end, last = Deadline.after(WATCH_S), None
        self._watchers += 1
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())
        try:
            while (remaining := end.remaining()) > 0:
                changed = self._changed
                if self._seen is not None and self._seen != last:
                    last = self._seen
                    yield last
                    continue
                try:
                    async with asyncio.timeout(remaining):
                        await changed.wait()
                except TimeoutError:
                    return
        finally:
            self._watchers -= 1

    async def _watch(self) -> None:
        while self._watchers:
            is_ready = await self.is_ready()
            if is_ready != self._seen:
                self._seen = is_ready
                self._changed.set()
                self._changed = asyncio.Event()
            await asyncio.sleep(POLL_S)
        self._seen = None
