"""The health of the service, for those who ask and those who watch."""

from __future__ import annotations

import asyncio

import pytest

from serving.rpc import health
from serving.rpc.health import Health

WATCHERS = 100


class Store:
    """Can be reached or not; lets go of one reading at a time."""

    def __init__(self) -> None:
        self.is_ready = True
        self.readings = 0
        self.read = asyncio.Semaphore(0)

    async def ready(self) -> bool:
        await self.read.acquire()
        self.readings += 1
        return self.is_ready


async def test_all_watchers_share_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "POLL_S", 0.0)
    store = Store()
    shared = Health(store.ready)
    watchers = [shared.watch() for _ in range(WATCHERS)]
    seen = [asyncio.create_task(anext(watcher)) for watcher in watchers]
    await asyncio.sleep(0)

    store.read.release()
    assert await asyncio.gather(*seen) == [True] * WATCHERS
    assert store.readings == 1

    changes = [asyncio.create_task(anext(watcher)) for watcher in watchers]
    store.is_ready = False
    store.read.release()
    assert await asyncio.gather(*changes) == [False] * WATCHERS
    assert store.readings == 2
    for watcher in watchers:
        await watcher.aclose()


async def test_health_nobody_watches_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "POLL_S", 0.0)
    store = Store()
    shared = Health(store.ready)
    store.read.release()
    watcher = shared.watch()
    await anext(watcher)
    await watcher.aclose()
    await asyncio.sleep(0)
    store.is_ready = False

    later = shared.watch()
    first = asyncio.create_task(anext(later))
    await asyncio.sleep(0)
    assert (store.readings, first.done()) == (1, False)
    store.read.release()

    # What was known before anyone watched again is not told.
    assert await first is False
    await later.aclose()
