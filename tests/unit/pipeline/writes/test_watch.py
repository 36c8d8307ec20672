"""A stream of changes: when it answers, and when it ends, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from serving.domain.changes import ChangesPosition
from serving.domain.errors import ChangesGoneError, OverloadedError
from serving.pipeline.writes.watch import HEARTBEAT_S, PAUSE_S, POLL_S, WATCH_S, ChangeWatcher
from serving.ports.change_feed import ChangesRead
from tests.fakes.change_feed import InMemoryChangeFeed
from tests.fakes.simulation.virtual_time import run_in_virtual_time
from tests.support.builders import TENANT, ids


def now() -> float:
    return asyncio.get_running_loop().time()


def watching(
    feed: InMemoryChangeFeed, after: Any = None, limit: int = 10
) -> tuple[ChangeWatcher, AsyncGenerator[ChangesRead, None]]:
    watcher = ChangeWatcher(feed, now)
    return watcher, watcher.watch(TENANT, after, limit)


def named(read: ChangesRead) -> str:
    return " ".join(change.item.id for change in read.changes)


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return run_in_virtual_time(main)


def test_first_response_is_the_position() -> None:
    async def main() -> None:
        feed = InMemoryChangeFeed()
        feed.write(*ids("before"))
        _, watched = watching(feed)

        first = await anext(watched)

        assert (named(first), first.position, now()) == ("", await feed.now(), 0)
        await watched.aclose()

    run(main())


def test_changes_come_as_they_are_announced() -> None:
    async def main() -> None:
        feed = InMemoryChangeFeed()
        _, watched = watching(feed)
        await anext(watched)
        coming = asyncio.ensure_future(anext(watched))
        await asyncio.sleep(3)
        feed.write(*ids("a", "b"))

        read = await coming

        assert named(read) == "a b"
        assert 3 <= now() <= 3 + PAUSE_S
        await watched.aclose()

    run(main())


def test_backlog_comes_in_batches_at_once() -> None:
    async def main() -> None:
        feed = InMemoryChangeFeed()
        token = feed.write(*ids("a", "b", "c"))
        _, watched = watching(feed, token, limit=2)

        assert [named(await anext(watched)) for _ in range(2)] == ["a b", "c"]
        assert now() == 0
        await watched.aclose()

    run(main())


class Deaf(InMemoryChangeFeed):
    """Its notifications are lost."""

    async def wait_beyond(self, heard: int, timeout_s: float) -> None:
        await asyncio.sleep(timeout_s)


def test_lost_notification_delays_changes_by_a_poll() -> None:
    async def main() -> None:
        feed = Deaf()
        _, watched = watching(feed)
        await anext(watched)
        feed.write(*ids("a"))

        assert named(await anext(watched)) == "a"
        assert now() <= POLL_S + PAUSE_S
        await watched.aclose()

    run(main())


def test_idle_stream_ends_with_its_position() -> None:
    async def main() -> None:
        feed = InMemoryChangeFeed()
        _, watched = watching(feed)
        times = []

        async with aclosing(watched):
            reads = []
            async for read in watched:
                reads.append(read)
                times.append(now())

        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert max(gaps) <= HEARTBEAT_S + PAUSE_S
        assert len(times) <= WATCH_S / HEARTBEAT_S + 2
        assert WATCH_S <= times[-1] <= WATCH_S + PAUSE_S
        at_rest = ChangesRead((), await feed.now())
        assert all(replace(read, changes=()) == at_rest and not read.changes for read in reads)

    run(main())


def test_ending_service_ends_streams_and_begins_none() -> None:
    async def main() -> None:
        feed = InMemoryChangeFeed()
        watcher, watched = watching(feed)
        await anext(watched)
        feed.write(*ids("a"))
        read = await anext(watched)
        last = asyncio.ensure_future(anext(watched))
        await asyncio.sleep(1)

        watcher.end()

        assert (await last).position == read.position
        assert now() <= 1 + PAUSE_S
        assert [rest async for rest in watched] == []
        with pytest.raises(OverloadedError, match="open streams"):
            await anext(watcher.watch(TENANT, None, 10))

    run(main())


def test_lost_log_ends_the_stream_with_its_error() -> None:
    async def main() -> None:
        feed = InMemoryChangeFeed()
        position = ChangesPosition("another", (await feed.now()).log)

        with pytest.raises(ChangesGoneError):
            await anext(watching(feed, position)[1])

    run(main())
