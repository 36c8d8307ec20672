"""An index that follows its feed, in shards and over restarts, against a reference in one piece.

Every replica maintains its engine in a thread of its own meanwhile, so searches run during rebuilds
and swaps.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from serving.adapters.vector_index import TieredIndex
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.shards import Shard, all_shards
from serving.pipeline.index import log_following, maintenance
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.pipeline.index.sharding import ShardedIndex
from serving.ports.index_engine import IndexEngine
from tests.fakes.lists.eager_lists import LISTS_AT_ONCE, WatchedLibrary
from tests.fakes.meaning import FAKE_MODEL, FakeFeed, FeedOfShard, InMemoryIndex, unit
from tests.fakes.simulation.random_rows import (
    QUESTIONS,
    TENANTS,
    WRITES,
    Question,
    Write,
    assert_is_what_is_nearest,
)
from tests.support.examples import examples

EVENTS = ["restarted", "spread", "pruned", "restored"]
"""A shard starts again; the number of shards changes; the log no longer has what was; the database
is another."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each index polls and is maintained often, and backs off hardly."""
    monkeypatch.setattr(log_following, "POLL_S", 0.002)
    monkeypatch.setattr(log_following, "FIRST_BACK_OFF_S", 0.001)
    monkeypatch.setattr(maintenance, "MAINTAIN_EVERY_S", 0.002)


def tiered() -> IndexEngine:
    return TieredIndex(FAKE_MODEL.dimension, WatchedLibrary(), LISTS_AT_ONCE)


class Machine(RuleBasedStateMachine):
    """Every list is probed, so that all must find the same."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.feed = FakeFeed()
        self.reference = InMemoryIndex()
        self.token = self.feed.put()
        self.lives = 1
        self.shards = all_shards(1)
        self.replicas = [self.replica(shard) for shard in self.shards]
        self.runner.run(self.replicas[0].start())
        self.epochs = dict.fromkeys(TENANTS, 0)

    def teardown(self) -> None:
        self.runner.run(self.stop_all())
        self.runner.close()

    async def stop_all(self) -> None:
        await asyncio.gather(*(replica.stop() for replica in self.replicas))

    def replica(self, shard: Shard) -> LogFollowingIndex:
        feed = FeedOfShard(self.feed, shard)
        return LogFollowingIndex(feed, FAKE_MODEL, tiered)

    async def replace(self, number: int) -> None:
        """A new process in the place of one that has ended."""
        self.replicas[number] = self.replica(self.shards[number])
        self.epochs = dict.fromkeys(TENANTS, 0)
        await self.replicas[number].start()

    async def caught_up(self, token: ConsistencyToken) -> None:
        """Waits until all have seen the write, and counts what they have then."""
        for replica in self.replicas:
            assert await replica.caught_up(token, Deadline.after(20))
            assert await replica.ready(Deadline.after(20))
        states = [await replica.status() for replica in self.replicas]
        assert sum(state.vector_count for state in states) == self.reference.vector_count

    # ------------------------------------------------------------ what befalls it

    @rule(
        write=WRITES,
        befalls=st.lists(st.sampled_from(EVENTS), max_size=2),
        number=st.integers(0, 2),
        later=WRITES,
        questions=st.lists(QUESTIONS, min_size=1, max_size=4),
    )
    def goes_on(
        self,
        write: Write,
        befalls: list[str],
        number: int,
        later: Write,
        questions: list[Question],
    ) -> None:
        """Is written to, has things befall one of its shards, is written to and asked."""
        self.is_written_to(write)
        self.catches_up()
        for event in befalls:
            self.befalls(event, number)
            self.is_written_to(later)
        for question in questions:
            self.is_asked(question)

    def is_written_to(self, write: Write) -> None:
        rows, removed = write
        self.feed.remove(*removed)
        self.token = self.feed.put(*rows)
        self.reference.apply(rows, removed)

    def catches_up(self) -> None:
        self.feed.embed()
        self.runner.run(self.caught_up(self.token))

    def befalls(self, event: str, number: int) -> None:
        shard = number % len(self.replicas)
        match event:
            case "restarted":
                self.runner.run(self.replicas[shard].stop())
                self.runner.run(self.replace(shard))
            case "spread":
                self.runner.run(self.spread(1 + number))
            case "pruned":
                self.feed.prune()
            case "restored":
                self.lives += 1
                self.feed.lose(str(self.lives))
                self.token = self.feed.put()

    async def spread(self, count: int) -> None:
        """Ends all, and starts `count` shards."""
        await self.stop_all()
        self.shards = all_shards(count)
        self.replicas = [self.replica(shard) for shard in self.shards]
        self.epochs = dict.fromkeys(TENANTS, 0)
        for replica in self.replicas:
            await replica.start()

    # ------------------------------------------------------------ what it must answer

    def is_asked(self, question: Question) -> None:
        self.catches_up()
        number, wanted = question
        index = ShardedIndex(self.replicas)

        found = self.runner.run(
            index.search(unit(number), replace(wanted, token=self.token), Deadline.after(20))
        )

        assert (found.stale, found.unsearched) == (False, "")
        assert_is_what_is_nearest(found, self.reference, question)
        assert found.epoch >= self.epochs[wanted.scope.tenant]
        self.epochs[wanted.scope.tenant] = found.epoch

    @invariant()
    def none_has_failed(self) -> None:
        states = [self.runner.run(replica.status()) for replica in self.replicas]
        assert not any("failed" in state.reason for state in states)


TestLogFollowing = Machine.TestCase
TestLogFollowing.settings = settings(
    max_examples=examples(60), stateful_step_count=8, deadline=None
)
