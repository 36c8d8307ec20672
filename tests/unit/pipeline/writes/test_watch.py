"""A stream of changes: when it answers, and when it ends, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from serving.domain.changes import ChangesPosition
from serving.domain.errors import ChangesGoneError
from serving.pipeline.writes.watch import PAUSE_S, WATCH_S, ChangeWatcher
from serving.ports.change_feed import ChangesRead
from tests.fakes.change_feed import InMemoryChangeFeed
from tests.fakes.simulation.virtual_time import in_virtual_time
from tests.support.builders import TENANT, ids


def now() -> float:
    return asyncio.get_running_loop().time()


def watching(
    feed: InMemoryChangeFeed, after: Any = None, limit: int = 10
) -> AsyncGenerator[ChangesRead, None]:
    return ChangeWatcher(feed, now).watch(TENANT, after, limit)


def named(read: ChangesRead) -> str:
    return " ".join(change.item.id for change in read.changes)


@in_virtual_time
async def test_idle_stream_begins_and_ends_with_its_position() -> None:
    feed = InMemoryChangeFeed()
    feed.write(*ids("before"))

    reads = [(now(), named(read), read.position) async for read in watching(feed)]

    at_rest = await feed.now()
    assert reads == [(0, "", at_rest), (WATCH_S, "", at_rest)]


@in_virtual_time
async def test_changes_come_as_they_are_announced() -> None:
    feed = InMemoryChangeFeed()
    watched = watching(feed)
    await anext(watched)
    coming = asyncio.ensure_future(anext(watched))
    await asyncio.sleep(3)
    feed.write(*ids("a", "b"))

    assert named(await coming) == "a b"
    assert 3 <= now() <= 3 + PAUSE_S
    await watched.aclose()


@in_virtual_time
async def test_backlog_comes_in_batches_at_once() -> None:
    feed = InMemoryChangeFeed()
    token = feed.write(*ids("a", "b", "c"))
    watched = watching(feed, token, limit=2)

    assert [named(await anext(watched)) for _ in range(2)] == ["a b", "c"]
    assert now() == 0
    await watched.aclose()


@in_virtual_time
async def test_busy_stream_ends_without_loss() -> None:
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


@in_virtual_time
async def test_lost_log_ends_the_stream_with_its_error() -> None:
    feed = InMemoryChangeFeed()
    position = ChangesPosition("another", (await feed.now()).log)

    with pytest.raises(ChangesGoneError):
        await anext(watching(feed, position))
