"""A stream of changes: when it answers, and when it ends, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from serving.domain.changes import ChangesPosition
from serving.domain.errors import ChangesGoneError
from serving.pipeline.writes.watch import PAUSE_S, WATCH_S, ChangeWatcher
from serving.ports.change_feed import ChangesRead
from tests.fakes.change_feed import InMemoryChangeFeed
from tests.fakes.simulation.virtual_time import run_in_virtual_time
from tests.support.builders import TENANT, ids


def now() -> float:
    return asyncio.get_running_loop().time()


def watching(
    feed: InMemoryChangeFeed, after: Any = None, limit: int = 10
) -> AsyncGenerator[ChangesRead, None]:
    return ChangeWatcher(feed, now).watch(TENANT, after, limit)


def named(read: ChangesRead) -> str:
    return " ".join(change.item.id for change in read.changes)


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return run_in_virtual_time(main)


def test_first_response_is_the_position() -> None:
    async def main() -> None:
        feed = InMemoryChangeFeed()
        feed.write(*ids("before"))
        watched = watching(feed)

        first = await anext(watched)

        assert (named(first), first.position, now()) == ("", await feed.now(), 0)
        await watched.aclose()

    run(main())


def test_changes_come_as_they_are_announced() -> None:
    async def main() -> None:
        feed = InMemoryChangeFeed()
        watched = watching(feed)
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
        watched = watching(feed, token, limit=2)

        assert [named(await anext(watched)) for _ in range(2)] == ["a b", "c"]
        assert now() == 0
        await watched.aclose()

    run(main())


def test_idle_stream_ends_with_its_position() -> None:
    async def main() -> None:
        feed = InMemoryChangeFeed()

        reads = [(now(), read) async for read in watching(feed)]

        at_rest = ChangesRead((), await feed.now())
        assert [replace(read, changes=()) for _, read in reads] == [at_rest, at_rest]
        assert not any(read.changes for _, read in reads)
        [began, ended] = [time for time, _ in reads]
        assert (began, ended) == (0, WATCH_S)

    run(main())


def test_busy_stream_ends_without_loss() -> None:
    async def main() -> None:
        feed = InMemoryChangeFeed()
        seen: list[str] = []
        watched = watching(feed)
        position = (await anext(watched)).position

        async for read in watched:
            seen += named(read).split()
            position = read.position
            feed.write(*ids(f"c{len(seen)}"))

        assert WATCH_S <= now() <= WATCH_S + PAUSE_S
        later = await anext(watching(feed, position))
        assert [*seen, *named(later).split()] == [f"c{number}" for number in range(len(seen) + 1)]

    run(main())


def test_lost_log_ends_the_stream_with_its_error() -> None:
    async def main() -> None:
        feed = InMemoryChangeFeed()
        position = ChangesPosition("another", (await feed.now()).log)

        with pytest.raises(ChangesGoneError):
            await anext(watching(feed, position))

    run(main())
