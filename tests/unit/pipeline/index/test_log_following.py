"""A vector index that follows its feed."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace

import numpy as np
import pytest

from serving.adapters.vector_index import ExactIndex
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import NotReadyError, StoreUnavailableError
from serving.domain.items.records import ItemKind, segment_id
from serving.domain.shards import all_shards
from serving.pipeline.index import log_following
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.pipeline.index.maintenance import NICENESS, Maintenance
from serving.pipeline.index.search_queue import SearchQueue
from serving.pipeline.index.sharding import ShardedIndex
from serving.ports.embedding import Vector, VectorLike
from serving.ports.index_engine import IndexEngine, IndexFeed, IndexRow, Neighbours
from serving.ports.vector_index import IndexAnswer, WantedNeighbours
from tests.fakes.meaning import (
    FAKE_MODEL,
    FakeFeed,
    FeedOfShard,
    InMemoryIndex,
    segment_row,
    stated,
    states_of,
    stored,
    unit,
)
from tests.support.builders import TENANT, ids, query, scope, segment
from tests.support.waiting import begin

WANTED = WantedNeighbours(ItemKind.SEGMENT, scope(), 10)


def row(name: str, seed: int = 1) -> IndexRow:
    return segment_row(segment(name), unit(seed))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each index polls often enough for a test and backs off hardly."""
    monkeypatch.setattr(log_following, "POLL_S", 0.01)
    monkeypatch.setattr(log_following, "FIRST_BACK_OFF_S", 0.001)


def unfilled(
    feed: FakeFeed, make_engine: Callable[[], IndexEngine] = InMemoryIndex
) -> LogFollowingIndex:
    return LogFollowingIndex(feed, FAKE_MODEL, make_engine)


@asynccontextmanager
async def following(
    feed: FakeFeed, make_engine: Callable[[], IndexEngine] = InMemoryIndex
) -> AsyncIterator[LogFollowingIndex]:
    async with unfilled(feed, make_engine) as index:
        await ready(index)
        yield index


@pytest.fixture
def feed() -> FakeFeed:
    feed = FakeFeed()
    feed.put(row("a"))
    feed.embed()
    return feed


async def ready(index: LogFollowingIndex) -> None:
    assert await index.ready(Deadline.after(10))


async def apply(index: LogFollowingIndex, feed: FakeFeed, token: ConsistencyToken) -> None:
    feed.embed()
    assert await index.caught_up(token, Deadline.after(10))


async def ask(
    index: LogFollowingIndex, token: ConsistencyToken | None = None, within_s: float = 10
) -> IndexAnswer:
    return await index.search(unit(1), replace(WANTED, token=token), Deadline.after(within_s))


def found(answer: IndexAnswer) -> list[object]:
    return [candidate.item for candidate in answer.candidates]


async def test_unfilled_index_reports_that_it_starts(feed: FakeFeed) -> None:
    index = unfilled(feed)

    for call in (ask(index), index.count(TENANT, ids("a")), related(index)):
        with pytest.raises(NotReadyError, match="starting"):
            await call
    assert index.traits(TENANT, ids("a")) == {}
    await index.stop()


async def test_read_with_a_token_finds_its_write(feed: FakeFeed) -> None:
    async with following(feed) as index:
        token = feed.put(row("b"))
        reading = await begin(ask(index, token))
        feed.embed()
        answer = await reading

    assert found(answer) == ids("a", "b")
    assert not answer.stale


WORD, ANOTHER = [127, 0, 0], [0, 127, 0]


def turns(feed: FakeFeed) -> None:
    """Two turns at one place, of which the second has the word that is asked for."""
    for name, word in (("first", ANOTHER), ("second", WORD)):
        feed.put(segment_row(segment(name), unit(2), states=stored(states_of([word]))))
    feed.embed()


@pytest.mark.parametrize("together", [False, True])
async def test_words_order_the_nearest_if_wanted(feed: FakeFeed, *, together: bool) -> None:
    turns(feed)
    asked = stated(states_of([WORD]), unit(2))
    by_words = replace(WANTED, late_interaction=-1.0)
    async with LogFollowingIndex(feed, FAKE_MODEL, InMemoryIndex, together=together) as index:
        await ready(index)
        found_by = [
            found(await index.search(asked, wanted, Deadline.after(10)))
            for wanted in (WANTED, by_words, replace(by_words, depth=1))
        ]

    assert found_by == [ids("first", "second", "a"), ids("second", "a", "first"), ids("second")]


async def test_merged_shards_have_the_order_of_one_index(feed: FakeFeed) -> None:
    turns(feed)
    asked = stated(states_of([WORD]), unit(2))
    wanted = replace(WANTED, late_interaction=-1.0)
    feeds: list[IndexFeed] = [feed, *(FeedOfShard(feed, shard) for shard in all_shards(2))]
    async with AsyncExitStack() as stack:
        indexes = [
            await stack.enter_async_context(LogFollowingIndex(each, FAKE_MODEL, InMemoryIndex))
            for each in feeds
        ]
        await asyncio.gather(*map(ready, indexes))
        whole = await indexes[0].search(asked, wanted, Deadline.after(10))
        merged = await ShardedIndex(indexes[1:]).search(asked, wanted, Deadline.after(10))

    assert found(merged) == ids("second", "a", "first")
    assert merged.candidates == whole.candidates


async def test_read_without_time_answers_as_stale(feed: FakeFeed) -> None:
    async with following(feed) as index:
        answer = await ask(index, feed.put(row("b")), within_s=0.05)

    assert found(answer) == ids("a")
    assert answer.stale


async def test_a_token_of_another_epoch_is_never_waited_for(feed: FakeFeed) -> None:
    async with following(feed) as index:
        answer = await ask(index, ConsistencyToken.of("another", [3]), within_s=3600)

    assert answer.stale


async def test_wait_begun_before_filling_ignores_other_epochs(feed: FakeFeed) -> None:
    index = unfilled(feed)
    token = ConsistencyToken.of("another", [3])
    waiting = await begin(index.caught_up(token, Deadline.after(0.1)))
    async with index:
        await ready(index)

        assert not await waiting


async def test_lag_is_that_of_unapplied_changes(feed: FakeFeed) -> None:
    index = unfilled(feed)
    before = await index.lag_s()
    async with index:
        await ready(index)
        taken = await index.lag_s()
        feed.failures = [StoreUnavailableError("away")] * 1000
        feed.put(row("b"))
        waiting = await index.lag_s()

    assert (before, taken, waiting) == (None, 0.0, 1.0)


class Reshaping(InMemoryIndex):
    """An engine that puts its rows into another shape when it is maintained."""

    def __init__(self) -> None:
        super().__init__()
        self.may_reshape = threading.Event()
        self.reshaped = threading.Event()

    def maintain(self) -> None:
        assert self.may_reshape.wait(10)
        with self.writing:
            self.generation = 1
            self.publish(TENANT)
        self.reshaped.set()

    def close(self) -> None:
        self.may_reshape.set()


async def test_fillings_and_shapes_have_distinct_epochs(feed: FakeFeed) -> None:
    engines: list[Reshaping] = []

    def make_engine() -> Reshaping:
        engines.append(Reshaping())
        return engines[-1]

    epochs = list[int]()
    async with following(feed, make_engine) as index:
        for number in (1, 2):
            epochs.append((await ask(index)).epoch)
            engines[-1].may_reshape.set()
            assert await asyncio.to_thread(engines[-1].reshaped.wait, 10)
            epochs.append((await ask(index)).epoch)
            if number == 1:
                feed.lose("2")
                await feed.bootstrapped(2)
                await apply(index, feed, feed.put(row("c")))
        status = await index.status(TENANT)

    assert epochs == [1, 2, 3, 4]
    assert status.epoch == 4


async def test_erased_row_is_gone_before_the_log_position(feed: FakeFeed) -> None:
    async with following(feed) as index:
        await apply(index, feed, feed.put(row("b")))
        await apply(index, feed, feed.remove((TENANT, segment_id("a"))))

        assert await index.count(TENANT, ids("a", "b")) == 1
        assert found(await ask(index)) == ids("b")


class ManyRows(InMemoryIndex):
    def scan_size(self, *_: object) -> int:
        return log_following.INLINE_ROWS + 1


async def test_large_scan_answers_equally_from_a_thread(feed: FakeFeed) -> None:
    async with following(feed, ManyRows) as index:
        assert found(await ask(index)) == ids("a")


async def test_index_answers_during_an_outage_of_postgresql(feed: FakeFeed) -> None:
    async with following(feed) as index:
        feed.failures += [StoreUnavailableError("gone")] * 3
        token = feed.put(row("b"))
        feed.embed()

        assert found(await ask(index)) == ids("a")
        assert found(await ask(index, token)) == ids("a", "b")
        assert feed.bootstraps == 1


async def test_a_start_without_postgresql_heals(feed: FakeFeed) -> None:
    feed.failures += [StoreUnavailableError("not yet"), TimeoutError()]
    async with following(feed) as index:
        assert found(await ask(index)) == ids("a")


async def test_index_starts_again_after_an_unexpected_failure(feed: FakeFeed) -> None:
    async with following(feed) as index:
        feed.failures.append(KeyError("a bug"))
        token = feed.put(row("b"))
        feed.embed()
        await feed.bootstrapped(2)

        await apply(index, feed, token)
        assert found(await ask(index)) == ids("a", "b")


async def test_incomplete_embeddings_delay_readiness_with_progress() -> None:
    feed = FakeFeed()
    embedded = feed.put(row("a"))
    feed.embed()
    feed.put(*(row(name) for name in "bcd"))
    feed.complete = False
    async with unfilled(feed) as index:
        assert await index.caught_up(embedded, Deadline.after(10))

        with pytest.raises(NotReadyError, match="re-embedding 25 %"):
            await ask(index)
        assert not (await index.status()).ready
        feed.embed()
        await ready(index)
        assert len(found(await ask(index))) == 4


async def test_backlog_of_a_complete_model_delays_nothing(feed: FakeFeed) -> None:
    feed.put(*(row(name) for name in "bcd"))
    async with following(feed) as index:
        assert found(await ask(index)) == ids("a")
        assert (await index.status()).ready


async def test_complete_index_goes_on_beneath_another_model(feed: FakeFeed) -> None:
    async with following(feed) as index:
        feed.complete = False
        erased = feed.remove((TENANT, segment_id("a")))
        assert not await index.caught_up(erased, Deadline.after(0.01))

        assert (await index.status()).ready


@pytest.mark.parametrize("many", [1, 2 * log_following.INLINE_CHANGES])
async def test_unusable_row_replaces_its_former_row_with_none(
    feed: FakeFeed, many: int, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"c{place}" for place in range(many)]
    async with following(feed) as index:
        unsound = segment_row(segment("a"), np.full(FAKE_MODEL.dimension, np.nan, np.float32))
        await apply(index, feed, feed.put(unsound, *map(row, names)))

        assert await index.count(TENANT, ids("a")) == 0
        assert await index.count(TENANT, ids(*names)) == many
        assert feed.bootstraps == 1
    (said,) = [each for each in caplog.records if "unsound" in each.message]
    assert vars(said)["reason"] == "a vector of 'a' is zero or not finite"


async def test_stopped_index_answers_no_more(feed: FakeFeed) -> None:
    async with following(feed) as index:
        pass

    with pytest.raises(NotReadyError, match="stopped"):
        await ask(index)


async def related(
    index: LogFollowingIndex, token: ConsistencyToken | None = None, within_s: float = 5
) -> IndexAnswer:
    asked = replace(query("?"), token=token)
    return await index.related(asked, ids("a"), 10, Deadline.after(within_s))


async def test_read_with_a_token_finds_related_writes() -> None:
    feed = FakeFeed()
    feed.put(segment_row(segment("a", speaker="Mara"), unit(1)))
    feed.embed()
    async with following(feed) as index:
        assert index.traits(TENANT, ids("a", "b")).keys() == set(ids("a"))
        token = feed.put(segment_row(segment("b", speaker="Mara"), unit(1)))
        stale = await related(index, token, within_s=0.2)
        reading = await begin(related(index, token))
        feed.embed()
        answer = await reading
        with pytest.raises(TimeoutError):
            await related(index, within_s=-1)

    assert (found(stale), stale.stale) == ([], True)
    assert (found(answer), answer.stale, answer.epoch) == (ids("b"), False, 1)


async def test_read_with_a_token_finds_adjacent_writes() -> None:
    feed, (first, second) = FakeFeed(), (segment(id_, session="call") for id_ in "ab")
    async with following(feed) as index:
        token = feed.put(segment_row(first, unit(1)), segment_row(second, unit(1)))
        asked = replace(query("?"), token=token)
        stale = await index.adjacent(asked, ids("a"), Deadline.after(0.2))
        reading = await begin(index.adjacent(asked, ids("a"), Deadline.after(5)))
        feed.embed()
        answer = await reading

    assert (dict(stale.of), stale.stale) == ({}, True)
    assert (list(answer.of), answer.stale) == (ids("a"), False)


# ---------------------------------------------------------------- maintenance


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.pipeline.index.maintenance.MAINTAIN_EVERY_S", 0.001)


class WatchedEngine(InMemoryIndex):
    """Counts how often it was maintained, and whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = threading.Semaphore(0)
        self.is_ended = threading.Event()
        self.errors: list[Exception] = []

    def maintain(self) -> None:
        self.rounds.release()
        if self.errors:
            raise self.errors.pop()

    def close(self) -> None:
        self.is_ended.set()


def maintain(engine: WatchedEngine, rounds: int) -> None:
    """Maintains an engine until it has had this number of rounds."""
    maintenance = Maintenance(engine, nullcontext)
    maintenance.start()
    for _ in range(rounds):
        assert engine.rounds.acquire(timeout=10)
    maintenance.end()
    maintenance.join(10)


@pytest.mark.usefixtures("often")
def test_an_engine_is_maintained_until_the_end_and_closed() -> None:
    engine = WatchedEngine()

    maintain(engine, rounds=3)

    assert engine.is_ended.is_set()


@pytest.mark.usefixtures("often")
def test_a_round_that_fails_is_followed_by_the_next(caplog: pytest.LogCaptureFixture) -> None:
    engine = WatchedEngine()
    engine.errors = [RuntimeError("what nobody thought of")]

    maintain(engine, rounds=2)

    assert "index maintenance failed" in caplog.text


@pytest.mark.usefixtures("often")
@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities on Linux alone")
def test_maintenance_gives_way_to_other_threads() -> None:
    class PriorityEngine(WatchedEngine):
        niceness: int

        def maintain(self) -> None:
            self.niceness = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
            super().maintain()

    engine = PriorityEngine()
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    maintain(engine, rounds=1)

    assert engine.niceness == min(19, own + NICENESS)
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == own


# ---------------------------------------------------------------- searches that are done together


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

    searches = (queue.search(engine, unit(1), WANTED) for _ in range(2))

    assert await asyncio.gather(*searches, return_exceptions=True) == [engine.error] * 2


@pytest.fixture
async def index(engine: TogetherIndex) -> AsyncIterator[LogFollowingIndex]:
    """One that searches with the engine."""
    feed = FakeFeed()
    feed.embed()
    async with LogFollowingIndex(feed, FAKE_MODEL, lambda: engine, together=True) as index:
        assert await index.ready(Deadline.after(10))
        yield index


async def test_searches_of_one_turn_go_together(
    engine: TogetherIndex, index: LogFollowingIndex
) -> None:
    answers = await asyncio.gather(*(ask(index) for _ in range(5)))
    await ask(index)

    assert [found(answer) for answer in answers] == [ids("a")] * 5
    assert engine.counts == [5, 1]


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
