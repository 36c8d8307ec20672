"""An index that follows its feed, in shards and over restarts, against a reference in one piece.

Every replica maintains its engine and writes its snapshots in a thread of its own all the while,
so that whatever is asked here is asked during a rebuild, a swap or a snapshot.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from serving.adapters.snapshot_folder import SnapshotFolder
from serving.adapters.vector_index import ExactIndex, TieredIndex
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import ItemKind
from serving.domain.shards import Shard, all_shards
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.pipeline.index.sharding import ShardedIndex
from serving.pipeline.index.snapshots import SnapshotWriter
from serving.ports.embedding import EmbeddingModel
from serving.ports.index_engine import IndexEngine, SnapshotLabel
from serving.ports.vector_index import WantedNeighbours
from tests.fakes.lists.eager_lists import LISTS_AT_ONCE, WatchedLibrary
from tests.fakes.meaning import FAKE_MODEL, FakeFeed, FeedOfShard, InMemoryIndex, segment_row, unit
from tests.fakes.simulation.random_rows import (
    QUESTIONS,
    TENANTS,
    WRITES,
    Question,
    Write,
    assert_is_what_is_nearest,
)
from tests.support.builders import TENANT, scope, segment
from tests.support.examples import examples
from tests.unit.pipeline.index.test_vector_spaces import until

EVENTS = ["kept", "crashed", "restarted", "damaged", "spread", "pruned", "restored"]
"""A snapshot is written; a shard ends without one, or with one, or its snapshots are damaged; the
number of shards changes; the log no longer has what was; the database is another."""


class WatchedFolder:
    """`IndexSnapshots` in a folder, of which the machine knows how often one was begun with.

    Attributes:
        restored: How often.
        may_save: False once the process that saves is as good as dead.
    """

    def __init__(self, root: Path, shard: Shard) -> None:
        self._folder = SnapshotFolder(root, shard)
        self.restored = 0
        self.may_save = True

    def save(self, engine: IndexEngine, label: SnapshotLabel) -> None:
        if not self.may_save:
            raise OSError("the process is dead")
        self._folder.save(engine, label)

    def restore(self, engine: IndexEngine, model: EmbeddingModel) -> SnapshotLabel | None:
        label = self._folder.restore(engine, model)
        self.restored += label is not None
        return label

    def delete_outdated(self, write: ConsistencyToken) -> None:
        self._folder.delete_outdated(write)

    def outdated_count(self, write: ConsistencyToken) -> int:
        return self._folder.outdated_count(write)


class Replica:
    """A shard's process: an index that follows, and its snapshots."""

    def __init__(
        self, feed: FakeFeed, shard: Shard, root: Path, make_engine: Callable[[], IndexEngine]
    ) -> None:
        self.snapshots = WatchedFolder(root, shard)
        self.rounds = 0
        self._now = 0.0
        self.index = LogFollowingIndex(
            FeedOfShard(feed, shard),
            FAKE_MODEL,
            make_engine,
            poll_s=0.002,
            back_off_s=0.001,
            maintain_every_s=0.002,
            snapshot_writer=SnapshotWriter(self.snapshots, every_s=1, clock=self._clock),
        )

    def _clock(self) -> float:
        self.rounds += 1
        return self._now

    async def keep(self) -> None:
        """Makes a snapshot due, and waits until the maintenance has seen to it."""
        self._now += 1
        seen = self.rounds
        await until(lambda: self.rounds >= seen + 4)

    async def crash(self) -> None:
        """Ends without a last snapshot."""
        self.snapshots.may_save = False
        await self.index.stop()


class Machine(RuleBasedStateMachine):
    """Every list is probed, so that all must find the same."""

    make_engine: ClassVar[Callable[[], IndexEngine]]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.feed = FakeFeed()
        self.reference = InMemoryIndex()
        self.token = self.feed.put()
        self.lives = 1
        self.shards = all_shards(1)
        self.replicas = [self.replica(shard) for shard in self.shards]
        self.runner.run(self.replicas[0].index.start())
        self.epochs = dict.fromkeys(TENANTS, 0)

    def teardown(self) -> None:
        self.runner.run(self.stop_all())
        self.runner.close()
        self.folder.cleanup()

    async def stop_all(self) -> None:
        await asyncio.gather(*(replica.index.stop() for replica in self.replicas))

    def replica(self, shard: Shard) -> Replica:
        root = Path(self.folder.name)
        return Replica(self.feed, shard, root, type(self).make_engine)

    async def replace(self, number: int) -> None:
        """A new process in the place of one that has ended."""
        self.replicas[number] = self.replica(self.shards[number])
        self.epochs = dict.fromkeys(TENANTS, 0)
        await self.replicas[number].index.start()

    async def caught_up(self, token: ConsistencyToken) -> None:
        """Waits until all have seen the write, and counts what they have then."""
        for replica in self.replicas:
            assert await replica.index.caught_up(token, Deadline.after(20))
            assert await replica.index.ready(Deadline.after(20))
        states = [await replica.index.status() for replica in self.replicas]
        assert sum(state.vector_count for state in states) == self.reference.vector_count

    # ------------------------------------------------------------ what befalls it

    @rule(
        write=WRITES,
        befalls=st.lists(st.sampled_from(EVENTS), max_size=2),
        number=st.integers(0, 2),
        place=st.integers(0, 10**6),
        later=WRITES,
        questions=st.lists(QUESTIONS, min_size=1, max_size=4),
    )
    def goes_on(
        self,
        write: Write,
        befalls: list[str],
        number: int,
        place: int,
        later: Write,
        questions: list[Question],
    ) -> None:
        """Is written to, has things befall one of its shards, is written to and asked."""
        self.is_written_to(write)
        self.catches_up()
        for event in befalls:
            self.befalls(event, number, place)
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

    def befalls(self, event: str, number: int, place: int) -> None:
        shard = number % len(self.replicas)
        match event:
            case "kept":
                self.runner.run(self.replicas[shard].keep())
            case "crashed":
                self.runner.run(self.replicas[shard].crash())
                self.runner.run(self.replace(shard))
            case "restarted":
                self.runner.run(self.replicas[shard].index.stop())
                self.runner.run(self.replace(shard))
            case "damaged":
                self.runner.run(self.replicas[shard].index.stop())
                self.damage(place)
                self.runner.run(self.replace(shard))
            case "spread":
                self.runner.run(self.spread(1 + number))
            case "pruned":
                self.feed.prune()
            case "restored":
                self.lives += 1
                self.feed.lose(str(self.lives))
                self.token = self.feed.put()

    def damage(self, place: int) -> None:
        """Changes a byte of each snapshot.

        One may be deleted meanwhile, by a thread that outlives its index.
        """
        for snapshot in Path(self.folder.name).glob("*/*"):
            with suppress(FileNotFoundError):
                files = [path for path in sorted(snapshot.iterdir()) if path.stat().st_size]
                for damaged in files[place % max(1, len(files)) :][:1]:
                    content = bytearray(damaged.read_bytes())
                    content[place % len(content)] ^= 1 + place % 255
                    damaged.write_bytes(content)

    async def spread(self, count: int) -> None:
        """Ends all, and starts so many shards."""
        await self.stop_all()
        self.shards = all_shards(count)
        self.replicas = [self.replica(shard) for shard in self.shards]
        self.epochs = dict.fromkeys(TENANTS, 0)
        for replica in self.replicas:
            await replica.index.start()

    # ------------------------------------------------------------ what it must answer

    def is_asked(self, question: Question) -> None:
        self.catches_up()
        number, wanted = question
        index = ShardedIndex([replica.index for replica in self.replicas])

        found = self.runner.run(
            index.search(unit(number), replace(wanted, token=self.token), Deadline.after(20))
        )

        assert (found.stale, found.unsearched) == (False, "")
        assert_is_what_is_nearest(found, self.reference, question)
        assert found.epoch >= self.epochs[wanted.scope.tenant]
        self.epochs[wanted.scope.tenant] = found.epoch

    @invariant()
    def none_has_failed(self) -> None:
        states = [self.runner.run(replica.index.status()) for replica in self.replicas]
        assert not any("failed" in state.reason for state in states)


def tiered() -> IndexEngine:
    return TieredIndex(FAKE_MODEL.dimension, WatchedLibrary(), LISTS_AT_ONCE)


class OfTieredIndexes(Machine):
    make_engine = staticmethod(tiered)


class OfExactIndexes(Machine):
    make_engine = staticmethod(lambda: ExactIndex(FAKE_MODEL.dimension))


TestLogFollowingTieredIndexes = OfTieredIndexes.TestCase
TestLogFollowingTieredIndexes.settings = settings(
    max_examples=examples(40), stateful_step_count=8, deadline=None
)
TestLogFollowingExactIndexes = OfExactIndexes.TestCase
TestLogFollowingExactIndexes.settings = settings(
    max_examples=examples(20), stateful_step_count=6, deadline=None
)


@pytest.fixture
def machine() -> Machine:
    return OfTieredIndexes()


def test_the_machine_begins_again_with_snapshots_of_lists(machine: Machine) -> None:
    rows = [segment_row(segment(f"s{number}"), unit(number)) for number in range(40)]
    machine.is_written_to((rows, []))
    machine.catches_up()
    machine.befalls("kept", 0, 0)
    kept = machine.replicas[0].index.tiers()
    machine.befalls("crashed", 0, 0)
    machine.is_asked((1, WantedNeighbours(ItemKind.SEGMENT, scope(tenant=TENANT), 10)))
    machine.teardown()

    assert any(tier.approximate for tier in kept)
    assert machine.replicas[0].snapshots.restored == 1
