"""A device that fails in a way that stays: noticed where it computes, and nothing of it is used."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from serving.domain.errors import DependencyError, DeviceLostError
from serving.domain.items.records import ItemId, ItemKind, TenantName
from serving.pipeline.index import log_following
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.pipeline.inference.device_watch import LOST, DeviceWatch, Watch
from serving.pipeline.inference.embedder import BatchedEmbedder
from serving.pipeline.inference.reranker import QueuedReranker
from serving.pipeline.writes.projector import EmbeddingWork
from serving.ports.change_log import Change, EmbeddingTask
from serving.ports.embedding import EmbeddingModel, TokenIds, VectorLike, Vectors
from serving.ports.index_engine import IndexRow, Neighbours
from serving.ports.reranking import Pair
from serving.ports.vector_index import WantedNeighbours
from tests.fakes.meaning import FAKE_MODEL, FakeEncoder, FakeFeed, InMemoryIndex, segment_row, unit
from tests.fakes.reranker import FakeCrossEncoder, settled
from tests.support.builders import TENANT, scope, segment
from tests.unit.pipeline.retrieval.retrieving import soon


class StickyError(RuntimeError):
    """As torch raises it of a device that will do nothing more."""


class Device:
    """A device that fails on command, for once or for good."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.ended = 0

    def watch(self, name: str) -> Watch:
        return DeviceWatch(name, lambda error: isinstance(error, StickyError), self.end).over

    def end(self) -> None:
        self.ended += 1

    def use(self) -> None:
        if self.fault is not None:
            raise self.fault


def embedder_on(device: Device) -> BatchedEmbedder:
    class OnDevice(FakeEncoder):
        def encode(self, windows: Sequence[TokenIds]) -> Vectors:
            device.use()
            return super().encode(windows)

    return BatchedEmbedder(OnDevice(), watch=device.watch("embedder"))


@pytest.fixture
def device() -> Device:
    return Device()


async def test_lost_device_ends_its_process_once(device: Device) -> None:
    async with embedder_on(device) as embedder:
        await embedder.embed_query("goa", soon())
        device.fault = StickyError("CUDA error: an illegal memory access was encountered")
        with pytest.raises(DeviceLostError, match=f"embedder: {LOST}"):
            await embedder.embed_query("goa", soon())

        device.fault = None
        with pytest.raises(DeviceLostError):
            await embedder.embed_query("goa", soon())

    assert device.ended == 1


async def test_an_error_after_which_the_device_goes_on_ends_nothing(device: Device) -> None:
    async with embedder_on(device) as embedder:
        device.fault = RuntimeError("CUDA error: invalid configuration argument")
        with pytest.raises(RuntimeError, match="invalid configuration"):
            await embedder.embed_query("goa", soon())

        device.fault = None
        await embedder.embed_query("goa", soon())

    assert not device.ended


def test_results_computed_during_the_loss_are_unused(device: Device) -> None:
    """Its kernels may have run or not; only the one that failed says so."""
    watch = device.watch("index")

    def lose() -> None:
        device.fault = StickyError()
        with pytest.raises(DeviceLostError), watch():
            device.use()

    with pytest.raises(DeviceLostError), watch():
        lose()
    with pytest.raises(DeviceLostError), watch():
        pass
    assert device.ended == 1


class EngineUnderWatch(InMemoryIndex):
    """An index engine that notes whether each use of its device is watched."""

    def __init__(self) -> None:
        super().__init__()
        self.unwatched: set[str] = set()
        self.watched: set[str] = set()
        self.maintained = threading.Event()
        self._watching = threading.local()

    @contextmanager
    def watch(self) -> Iterator[None]:
        self._watching.now = True
        yield
        self._watching.now = False

    def _note(self, use: str) -> None:
        (self.watched if getattr(self._watching, "now", False) else self.unwatched).add(use)

    def apply(self, rows: Sequence[IndexRow], removed: Sequence[tuple[TenantName, ItemId]]) -> None:
        self._note("apply")
        super().apply(rows, removed)

    def search(self, vector: VectorLike, wanted: WantedNeighbours) -> Neighbours:
        self._note("search")
        return super().search(vector, wanted)

    def maintain(self) -> None:
        self._note("maintain")
        self.maintained.set()


@pytest.mark.parametrize("inline", [True, False])
async def test_an_index_watches_each_use_of_its_engines_device(
    inline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not inline:
        monkeypatch.setattr(log_following, "INLINE_ROWS", -1)
        monkeypatch.setattr(log_following, "INLINE_CHANGES", -1)
    engine, feed = EngineUnderWatch(), FakeFeed()
    feed.put(segment_row(segment("1"), unit(1)))
    feed.embed()
    async with LogFollowingIndex(feed, FAKE_MODEL, lambda: engine, watch=engine.watch) as index:
        assert await index.ready(soon())
        await index.search(unit(1), WantedNeighbours(ItemKind.SEGMENT, scope(), 3), soon())
        assert await asyncio.to_thread(engine.maintained.wait, 10)

    assert engine.watched == {"apply", "search", "maintain"}
    assert not engine.unwatched


async def test_lost_reranker_device_keeps_the_order_of_hits(device: Device) -> None:
    class OnDevice(FakeCrossEncoder):
        def score(self, pairs: Sequence[Pair]) -> list[float]:
            device.use()
            return super().score(pairs)

    async with QueuedReranker(OnDevice, watch=device.watch("reranker")) as reranker:
        await settled(reranker)
        device.fault = StickyError()
        with pytest.raises(DependencyError, match="reranker: the model failed"):
            await reranker.rerank("goa", ["we sailed"], soon())

    assert device.ended == 1


@pytest.mark.parametrize("rows", [1, 2])
async def test_lost_device_dead_letters_no_row(device: Device, rows: int) -> None:
    device.fault = StickyError()

    class Log:
        """A change log in which nothing can be saved or dead-lettered."""

        async def embedding_tasks(
            self, changes: Sequence[Change], model: EmbeddingModel
        ) -> list[EmbeddingTask]:
            return [EmbeddingTask(change, "goa", b"") for change in changes]

    async with embedder_on(device) as embedder:
        work = EmbeddingWork(Log(), embedder)  # type: ignore[arg-type]
        with pytest.raises(DeviceLostError):
            await work.project([Change(1, TENANT, segment("1").item, 1)] * rows)
