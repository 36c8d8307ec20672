"""The queue of searches that are done together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest

from serving.adapters.vector_index import ExactIndex
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemKind
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.pipeline.index.search_queue import SearchQueue
from serving.ports.embedding import Vector, VectorLike
from serving.ports.index_engine import Neighbours
from serving.ports.vector_index import WantedNeighbours
from tests.fakes.meaning import FAKE_MODEL, FakeFeed, segment_row, unit
from tests.support.builders import ids, scope, segment

WANTED = WantedNeighbours(ItemKind.SEGMENT, scope(), 10)


class TogetherIndex(ExactIndex):
    """Records how many searches it is given at once.

    Attributes:
        error: Raised in place of an answer.
    """

    def __init__(self) -> None:
        super().__init__(FAKE_MODEL.dimension)
        self.counts: list[int] = []
        self.error: Exception | None = None
        self.apply([segment_row(segment("a"), unit(1))], [])

    def search_all(
        self, searches: Sequence[tuple[VectorLike, WantedNeighbours]]
    ) -> list[Neighbours]:
        self.counts.append(len(searches))
        if self.error is not None:
            raise self.error
        return super().search_all(searches)


@pytest.fixture
def engine() -> TogetherIndex:
    return TogetherIndex()


async def test_searches_of_one_turn_go_together(engine: TogetherIndex) -> None:
    queue = SearchQueue()

    found = await asyncio.gather(*(queue.search(engine, unit(1), WANTED) for _ in range(3)))
    await queue.search(engine, unit(1), WANTED)

    assert engine.counts == [3, 1]
    for each in found:
        assert [candidate.item for candidate in each.candidates] == ids("a")


async def test_searches_of_two_engines_are_kept_apart(engine: TogetherIndex) -> None:
    queue, other = SearchQueue(), TogetherIndex()

    await asyncio.gather(*(queue.search(each, unit(1), WANTED) for each in (engine, other, engine)))

    assert (engine.counts, other.counts) == ([2], [1])


async def test_a_cancelled_search_is_not_done(engine: TogetherIndex) -> None:
    queue = SearchQueue()
    given_up = asyncio.create_task(queue.search(engine, unit(1), WANTED))
    kept = asyncio.create_task(queue.search(engine, unit(1), WANTED))
    await asyncio.sleep(0)

    given_up.cancel()
    await asyncio.sleep(0)
    await kept

    assert engine.counts == [1]


async def test_an_error_reaches_all_callers(engine: TogetherIndex) -> None:
    queue = SearchQueue()
    engine.error = RuntimeError("no device")

    found = await asyncio.gather(
        *(queue.search(engine, unit(1), WANTED) for _ in range(2)), return_exceptions=True
    )

    assert found == [engine.error] * 2


@pytest.fixture
async def index(engine: TogetherIndex) -> AsyncIterator[LogFollowingIndex]:
    """One that searches with the engine."""
    feed = FakeFeed()
    feed.embed()
    async with LogFollowingIndex(feed, FAKE_MODEL, lambda: engine, together=True) as index:
        assert await index.ready(Deadline.after(10))
        yield index


async def test_an_index_searches_together_what_waits(
    engine: TogetherIndex, index: LogFollowingIndex
) -> None:
    found = await asyncio.gather(
        *(index.search(unit(1), WANTED, Deadline.after(10)) for _ in range(5))
    )

    assert [[each.item for each in answer.candidates] for answer in found] == [ids("a")] * 5
    assert engine.counts == [5]


@pytest.mark.parametrize(
    ("vector", "within_s", "error", "why"),
    [
        (unit(1), -1, TimeoutError, ""),
        (0 * unit(1), 10, ValueError, "zero or not finite"),
        (np.nan * unit(1), 10, ValueError, "zero or not finite"),
        (unit(1, 3), 10, ValueError, f"{FAKE_MODEL.dimension} dimensions, got 3"),
    ],
)
async def test_late_or_unsound_search_is_not_done(
    vector: Vector,
    within_s: float,
    error: type[Exception],
    why: str,
    engine: TogetherIndex,
    index: LogFollowingIndex,
) -> None:
    with pytest.raises(error, match=why or None):
        await index.search(vector, WANTED, Deadline.after(within_s))

    assert engine.counts == []
