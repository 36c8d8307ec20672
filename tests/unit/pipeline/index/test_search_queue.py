"""The queue of searches that are done together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future

import pytest

from serving.domain.budget import Deadline
from serving.domain.items.records import ItemKind
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.pipeline.index.search_queue import MAX_TOGETHER, SearchQueue, WaitingSearch
from serving.ports.embedding import VectorLike
from serving.ports.index_engine import Neighbours
from serving.ports.vector_index import WantedNeighbours
from tests.fakes.meaning import FAKE_MODEL, FakeFeed, InMemoryIndex, segment_row, unit
from tests.support.builders import ids, scope, segment

WANTED = WantedNeighbours(ItemKind.SEGMENT, scope(), 10)


class TogetherIndex(InMemoryIndex):
    """Records how many searches it is given at once, and waits before the first.

    Attributes:
        begun: Set when the first ones have begun.
        may_end: They end once this is set.
        error: Raised in place of an answer.
    """

    searches_together = True

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int] = []
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.apply([segment_row(segment("a"), unit(1))], [])

    def search_all(
        self, searches: Sequence[tuple[VectorLike, WantedNeighbours]]
    ) -> list[Neighbours]:
        self.counts.append(len(searches))
        self.begun.set()
        assert self.may_end.wait(10)
        if self.error is not None:
            raise self.error
        return super().search_all(searches)


def waiting(engine: TogetherIndex, within_s: float = 10) -> WaitingSearch:
    return WaitingSearch(engine, unit(1), WANTED, Deadline.after(within_s), Future())


@pytest.fixture
def engine() -> TogetherIndex:
    engine = TogetherIndex()
    engine.may_end.set()
    return engine


def test_a_step_does_all_that_wait(engine: TogetherIndex) -> None:
    queue, searches = SearchQueue(), [waiting(engine) for _ in range(3)]
    for search in searches:
        queue.add(search)

    queue.step()

    assert engine.counts == [3]
    assert not queue.has_work
    for search in searches:
        assert [each.item for each in search.future.result(0).candidates] == ids("a")


def test_a_step_is_bounded(engine: TogetherIndex) -> None:
    queue = SearchQueue()
    for _ in range(MAX_TOGETHER + 1):
        queue.add(waiting(engine))

    queue.step()
    queue.step()

    assert engine.counts == [MAX_TOGETHER, 1]


def test_searches_of_two_engines_are_kept_apart(engine: TogetherIndex) -> None:
    other = TogetherIndex()
    other.may_end.set()
    queue = SearchQueue()
    for each in (engine, other, engine):
        queue.add(waiting(each))

    queue.step()

    assert (engine.counts, other.counts) == ([2], [1])


def test_unwanted_searches_are_not_done(engine: TogetherIndex) -> None:
    queue, late, given_up = SearchQueue(), waiting(engine, within_s=-1), waiting(engine)
    queue.add(late)
    queue.add(given_up)
    given_up.future.cancel()

    queue.step()

    assert engine.counts == []
    with pytest.raises(TimeoutError):
        late.future.result(0)


def test_an_error_reaches_all_callers(engine: TogetherIndex) -> None:
    queue, searches = SearchQueue(), [waiting(engine) for _ in range(2)]
    engine.error = RuntimeError("no device")
    for search in searches:
        queue.add(search)

    queue.step()

    for search in searches:
        with pytest.raises(RuntimeError, match="no device"):
            search.future.result(0)


async def test_an_index_searches_together_what_waits() -> None:
    feed, engine = FakeFeed(), TogetherIndex()
    feed.put(segment_row(segment("a"), unit(1)))
    feed.embed()
    async with LogFollowingIndex(feed, FAKE_MODEL, lambda: engine, poll_s=0.01) as index:
        assert await index.ready(Deadline.after(10))

        async def ask() -> list[object]:
            answer = await index.search(unit(1), WANTED, Deadline.after(10))
            return [each.item for each in answer.candidates]

        first = asyncio.create_task(ask())
        assert await asyncio.to_thread(engine.begun.wait, 10)
        others = [asyncio.create_task(ask()) for _ in range(5)]
        await asyncio.sleep(0)
        engine.may_end.set()

        assert await asyncio.gather(first, *others) == [ids("a")] * 6
    assert engine.counts == [1, 5]


async def test_an_unsound_vector_fails_its_own_search_alone() -> None:
    feed, engine = FakeFeed(), TogetherIndex()
    engine.may_end.set()
    feed.embed()
    async with LogFollowingIndex(feed, FAKE_MODEL, lambda: engine, poll_s=0.01) as index:
        assert await index.ready(Deadline.after(10))
        with pytest.raises(ValueError, match="zero or not finite"):
            await index.search(0 * unit(1), WANTED, Deadline.after(10))
    assert engine.counts == []
