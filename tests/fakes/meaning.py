"""Meaning without a model: an encoder of words, a feed in memory, an index that is exact."""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from serving.adapters.vector_index import ExactIndex
from serving.domain.budget import Deadline
from serving.domain.consistency import NOTHING_SEEN, ConsistencyToken, Snapshot
from serving.domain.items.records import Fact, ItemId, ItemKind, Segment, TenantName
from serving.domain.items.text import QUESTION_MARKS
from serving.domain.questions.filters import segment_terms
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.signals import Traits
from serving.domain.shards import Shard
from serving.domain.soundness import sound_rows
from serving.ports.embedding import (
    Device,
    Embedding,
    EmbeddingModel,
    StatedVector,
    TokenIds,
    TokenStates,
    Vector,
    VectorLike,
    Vectors,
)
from serving.ports.index_engine import (
    FeedDelta,
    FeedLostError,
    FeedPosition,
    IndexEngine,
    IndexRow,
)
from serving.ports.vector_index import (
    AdjacencyAnswer,
    IndexAnswer,
    IndexStatus,
    VectorKind,
    WantedNeighbours,
)
from tests.support.builders import TENANT
from tests.support.shards import owns
from tests.support.waiting import Gate

FAKE_MODEL = EmbeddingModel("fake", 16)


def unit(seed: int, dimension: int = FAKE_MODEL.dimension) -> Vector:
    """The direction number `seed`."""
    vector = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    return vector / np.linalg.norm(vector)


class FakeEncoder:
    """A `TextEncoder` that adds up one direction per word; equal words, near texts."""

    def __init__(self, *, window: int = 8, overlap: int = 2, is_accelerator: bool = False) -> None:
        self._window = window
        self._step = window - overlap
        self._device = Device(is_accelerator=is_accelerator, token_budget=4096)

    def model(self) -> EmbeddingModel:
        return FAKE_MODEL

    def device(self) -> Device:
        return self._device

    def tokenize_query(self, text: str) -> TokenIds:
        return self.tokenize_document(text)[0]

    def tokenize_document(self, text: str) -> list[TokenIds]:
        tokens = [zlib.crc32(word.encode()) for word in text.lower().split()] or [0]
        starts = range(0, max(1, len(tokens) - self._window + self._step), self._step)
        return [tokens[start : start + self._window] for start in starts]

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        sums = [np.sum([unit(token) for token in window], axis=0) for window in windows]
        return np.stack([total / np.linalg.norm(total) for total in sums])

    def encode_documents(self, windows: Sequence[TokenIds]) -> Embedding:
        return Embedding(self.encode(windows))

    def encode_queries(self, windows: Sequence[TokenIds]) -> list[Vector | None]:
        return sound_rows(self.encode(windows))


class GatedEncoder(FakeEncoder, Gate):
    """Is held with every batch, as at a gate, and remembers them."""

    def __init__(self, *, window: int = 8, is_accelerator: bool = False) -> None:
        FakeEncoder.__init__(self, window=window, is_accelerator=is_accelerator)
        Gate.__init__(self)
        self.batches: list[list[TokenIds]] = []

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        self.batches.append(list(windows))
        self.pass_through()
        return super().encode(windows)


class WatchedEncoder(GatedEncoder):
    """Remembers which threads tokenized and which encoded; signals when a text is tokenized."""

    def __init__(self, *, is_accelerator: bool = False) -> None:
        super().__init__(is_accelerator=is_accelerator)
        self.tokenized_by: dict[str, str] = {}
        self.encoded_by: set[str] = set()
        self.tokenized = Gate.open()

    def tokenize_document(self, text: str) -> list[TokenIds]:
        windows = super().tokenize_document(text)
        self.tokenized_by[text] = threading.current_thread().name
        self.tokenized.pass_through()
        return windows

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        self.encoded_by.add(threading.current_thread().name)
        return super().encode(windows)


class PoisonedEncoder(FakeEncoder):
    """Fails each batch that has the word "poison"."""

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        poison = zlib.crc32(b"poison")
        if any(poison in window for window in windows):
            raise RuntimeError("poisoned batch")
        return super().encode(windows)


class FakeEmbedder:
    """An `Embedder` that makes no batches; it keeps its queries."""

    def __init__(self) -> None:
        self._encoder = FakeEncoder()
        self.queries: list[str] = []

    async def model(self) -> EmbeddingModel:
        return self._encoder.model()

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        self.queries.append(text)
        if deadline.passed:
            raise TimeoutError
        vector: Vector = self._encoder.encode([self._encoder.tokenize_query(text)])[0]
        return vector

    async def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        tokenized = map(self._encoder.tokenize_document, texts)
        return [self._encoder.encode_documents(windows) for windows in tokenized]


AXES, OTHER_AXES = b"axes", b"more"


def states_of(words: Sequence[Sequence[int]]) -> TokenStates:
    """The states of these words, coordinate by coordinate."""
    return np.array(words, np.int8)


def stored(states: TokenStates, axes: bytes = AXES) -> bytes:
    """States as a row has them."""
    return axes + states.tobytes()


def stated(states: TokenStates, vector: Vector | None = None) -> StatedVector:
    """The vector of a question with these states."""
    return StatedVector(unit(1) if vector is None else vector, states, AXES)


def segment_row(
    segment: Segment,
    *vectors: Vector,
    tenant: TenantName = TENANT,
    context: Vector | None = None,
    states: bytes = b"",
) -> IndexRow:
    """The row of a segment as the feed brings it; without vectors it is there for filters."""
    return IndexRow(
        tenant=tenant,
        item=segment.item,
        vectors=np.stack(vectors).astype(np.float16) if vectors else np.empty((0, 0), np.float16),
        context=None if context is None else context[np.newaxis].astype(np.float16),
        states=states,
        terms=segment_terms(segment),
        entities=segment.entities,
        speaker=segment.speaker,
        asks=not set(segment.text).isdisjoint(QUESTION_MARKS),
        entity=segment.entity,
        importance=segment.importance,
        event_time=segment.event_time,
        created_at=segment.created_at,
        updated_at=segment.updated_at,
    )


def fact_row(fact: Fact, *vectors: Vector, tenant: TenantName = TENANT) -> IndexRow:
    """The row of a fact as the feed brings it."""
    return IndexRow(
        tenant=tenant,
        item=fact.item,
        vectors=np.stack(vectors).astype(np.float16),
        valid_from=fact.valid_from,
        valid_to=fact.searched_until,
        recorded_at=fact.recorded_at,
        retracted_at=fact.retracted_at,
        closings=fact.closings,
        evidence=fact.evidence,
    )


class InMemoryIndex(ExactIndex):
    """An exact index of vectors of `FAKE_MODEL`."""

    def __init__(self) -> None:
        super().__init__(FAKE_MODEL.dimension)


class EngineIndex:
    """A `CandidateIndex` of what an engine holds, which lacks nothing."""

    def __init__(self, engine: IndexEngine) -> None:
        self._engine = engine

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        found = self._engine.search(vector, wanted)
        return IndexAnswer(found.candidates, epoch=1, evidence=found.evidence)

    async def related(
        self, query: Query, seeds: Sequence[ItemId], depth: int, deadline: Deadline
    ) -> IndexAnswer:
        return IndexAnswer(self._engine.related(query, seeds, depth), epoch=1)

    async def adjacent(
        self, query: Query, items: Sequence[ItemId], deadline: Deadline
    ) -> AdjacencyAnswer:
        return AdjacencyAnswer(self._engine.adjacent(query.scope, items))

    def is_at_hand(self, tenant: TenantName, kind: VectorKind) -> bool:
        return True

    def traits(self, tenant: TenantName, items: Sequence[ItemId]) -> dict[ItemId, Traits]:
        return self._engine.traits(tenant, items)

    def closed(self, scope: Scope, items: Sequence[ItemId]) -> dict[ItemId, tuple[ItemId, ...]]:
        return self._engine.closed(scope, items)

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        return self._engine.count(tenant, items)

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        return True

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        return IndexStatus(True, self._engine.vector_count, 1)


@dataclass(slots=True)
class _Entry:
    xid: int
    tenant: TenantName
    item: ItemId


@dataclass
class FakeFeed:
    """An `IndexFeed` that the test writes to: `put`, `remove`, then `embed`.

    A row that was put is in the log at once, and has its vectors after `embed`. `complete`
    says whether all rows ever had. `failures` are raised by the next calls, one each. `lose`
    makes a new epoch, and `prune` forgets the log so far.
    """

    epoch: str = "1"
    complete: bool = True
    failures: list[Exception] = field(default_factory=list)
    bootstraps: int = 0
    _next_xid: int = NOTHING_SEEN.xmax
    _embedded_below: int = NOTHING_SEEN.xmax
    _pruned_below: int = NOTHING_SEEN.xmax
    _rows: dict[tuple[TenantName, ItemId], tuple[int, IndexRow]] = field(default_factory=dict)
    _log: list[_Entry] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _bootstrapped: asyncio.Condition = field(default_factory=asyncio.Condition)

    def put(self, *rows: IndexRow) -> ConsistencyToken:
        """Writes rows in one transaction; their vectors come with `embed`."""
        xid = self._write([(row.tenant, row.item) for row in rows])
        self._rows.update({(row.tenant, row.item): (xid, row) for row in rows})
        return ConsistencyToken.of(self.epoch, [xid])

    def remove(self, *names: tuple[TenantName, ItemId]) -> ConsistencyToken:
        """Erases rows in one transaction."""
        for name in names:
            self._rows.pop(name, None)
        return ConsistencyToken.of(self.epoch, [self._write(names)])

    def embed(self) -> None:
        """Makes the vectors of everything written so far."""
        self._embedded_below = self._next_xid
        self.complete = True
        self._changed.set()

    def lose(self, epoch: str) -> None:
        """Forgets the log, as a restore from a dump does."""
        self.epoch = epoch
        self._changed.set()

    def prune(self) -> None:
        """Forgets what was written so far, as the log does in time."""
        self._pruned_below = self._next_xid
        self._changed.set()

    async def bootstrapped(self, times: int) -> None:
        """Waits until the index has begun `times` times."""
        async with asyncio.timeout(10), self._bootstrapped:
            await self._bootstrapped.wait_for(lambda: self.bootstraps >= times)

    def _write(self, names: Sequence[tuple[TenantName, ItemId]]) -> int:
        xid, self._next_xid = self._next_xid, self._next_xid + 1
        self._log.extend(_Entry(xid, tenant, item) for tenant, item in names)
        self._changed.set()
        return xid

    def _position(self) -> FeedPosition:
        return FeedPosition(
            self.epoch,
            log=Snapshot(self._next_xid),
            embedded=Snapshot(self._embedded_below),
            complete=self.complete,
        )

    def _fail_if_asked(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    @asynccontextmanager
    async def bootstrap(
        self, model: EmbeddingModel
    ) -> AsyncIterator[tuple[FeedPosition, AsyncIterator[list[IndexRow]]]]:
        self._fail_if_asked()
        async with self._bootstrapped:
            self.bootstraps += 1
            self._bootstrapped.notify_all()

        async def batches() -> AsyncIterator[list[IndexRow]]:
            for xid, row in list(self._rows.values()):
                if xid < self._embedded_below:
                    yield [row]

        yield self._position(), batches()

    async def lag_s(self, position: FeedPosition) -> float:
        """One second for each transaction since."""
        since = {entry.xid for entry in self._log if not position.log.includes(entry.xid)}
        return float(len(since))

    async def changes_since(self, position: FeedPosition, model: EmbeddingModel) -> FeedDelta:
        self._fail_if_asked()
        if position.epoch != self.epoch or position.log.xmax < self._pruned_below:
            raise FeedLostError
        names = {
            (entry.tenant, entry.item)
            for entry in self._log
            if not (position.log.includes(entry.xid) and position.embedded.includes(entry.xid))
        }
        rows = [self._rows[name] for name in names if name in self._rows]
        return FeedDelta(
            rows=[row for xid, row in rows if xid < self._embedded_below],
            removed=[name for name in names if name not in self._rows],
            position=self._position(),
        )

    async def embedded_share(self, model: EmbeddingModel) -> float:
        embedded = sum(xid < self._embedded_below for xid, _ in self._rows.values())
        return embedded / len(self._rows) if self._rows else 1.0

    async def wait(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()


class FeedOfShard:
    """An `IndexFeed` with a share of the rows of another, and all segments for its filters."""

    def __init__(self, feed: FakeFeed, shard: Shard) -> None:
        self._feed = feed
        self._shard = shard

    def _of_shard(self, rows: Sequence[IndexRow]) -> list[IndexRow]:
        shared = []
        for row in rows:
            if owns(self._shard, row.tenant, row.item):
                shared.append(row)
            elif row.item.kind is ItemKind.SEGMENT:
                shared.append(replace(row, vectors=np.empty((0, 0), np.float16)))
        return shared

    @asynccontextmanager
    async def bootstrap(
        self, model: EmbeddingModel
    ) -> AsyncIterator[tuple[FeedPosition, AsyncIterator[list[IndexRow]]]]:
        async with self._feed.bootstrap(model) as (position, batches):
            yield position, (self._of_shard(rows) async for rows in batches)

    async def changes_since(self, position: FeedPosition, model: EmbeddingModel) -> FeedDelta:
        delta = await self._feed.changes_since(position, model)
        return replace(delta, rows=self._of_shard(delta.rows))

    async def lag_s(self, position: FeedPosition) -> float:
        return await self._feed.lag_s(position)

    async def embedded_share(self, model: EmbeddingModel) -> float:
        return await self._feed.embedded_share(model)

    async def wait(self, timeout_s: float) -> None:
        await self._feed.wait(timeout_s)
