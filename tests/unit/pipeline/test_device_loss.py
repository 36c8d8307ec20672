"""A device that fails in a way that stays: noticed where it computes, and nothing of it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from serving.domain.errors import DependencyError, DeviceLostError
from serving.domain.records import ItemKind
from serving.pipeline.batching import BatchedEmbedder
from serving.pipeline.device_loss import (
    LOST,
    DeviceWatch,
    WatchedCrossEncoder,
    WatchedEncoder,
    WatchedEngine,
)
from serving.pipeline.project import EmbeddingWork
from serving.pipeline.reranking import QueuedReranker
from serving.ports import (
    Change,
    EmbeddingModel,
    EmbeddingTask,
    Pair,
    TokenIds,
    Vectors,
    WantedNeighbours,
)
from tests.builders import TENANT, scope, segment
from tests.fake_meaning import FakeEncoder, InMemoryIndex, segment_row, unit
from tests.fake_reranker import FakeCrossEncoder, settled
from tests.unit.pipeline.retrieving import soon


class StickyError(RuntimeError):
    """As torch raises it of a device that will do nothing more."""


class Device:
    """A device that fails on command, for once or for good."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.ended = 0

    def watch(self, name: str = "index") -> DeviceWatch:
        return DeviceWatch(name, lambda error: isinstance(error, StickyError), self.end)

    def end(self) -> None:
        self.ended += 1

    def use(self) -> None:
        if self.fault is not None:
            raise self.fault


class EncoderOnDevice(FakeEncoder):
    """An encoder on such a device."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self._its = device

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        self._its.use()
        return super().encode(windows)


class CrossEncoderOnDevice(FakeCrossEncoder):
    """A cross-encoder on such a device."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self._its = device

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        self._its.use()
        return super().score(pairs)


class EngineOnDevice(InMemoryIndex):
    """An index engine on such a device, which does something else meanwhile if it is told."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self._its = device
        self.meanwhile: Callable[[], None] = lambda: None

    def maintain(self) -> None:
        self._its.use()
        self.meanwhile()


async def test_a_lost_device_is_told_to_all_who_ask_and_ends_its_process_once() -> None:
    device = Device()
    encoder = WatchedEncoder(EncoderOnDevice(device), device.watch("embedder"))
    async with BatchedEmbedder(encoder) as embedder:
        await embedder.embed_query("goa", soon())
        device.fault = StickyError("CUDA error: an illegal memory access was encountered")
        with pytest.raises(DeviceLostError, match=f"embedder: {LOST}"):
            await embedder.embed_query("goa", soon())

        device.fault = None
        with pytest.raises(DeviceLostError):
            await embedder.embed_query("goa", soon())

    assert device.ended == 1


async def test_an_error_after_which_the_device_goes_on_ends_nothing() -> None:
    device = Device()
    encoder = WatchedEncoder(EncoderOnDevice(device), device.watch("embedder"))
    async with BatchedEmbedder(encoder) as embedder:
        device.fault = RuntimeError("CUDA error: invalid configuration argument")
        with pytest.raises(RuntimeError, match="invalid configuration"):
            await embedder.embed_query("goa", soon())

        device.fault = None
        await embedder.embed_query("goa", soon())

    assert not device.ended


def test_what_was_being_computed_when_the_device_was_lost_is_not_used() -> None:
    """Its kernels may have run or not; only the one that failed says so."""
    device = Device()
    engine = EngineOnDevice(device)
    watched = WatchedEngine(engine, device.watch())
    watched.apply([segment_row(segment("1"), unit(1))], [])

    def lose() -> None:
        device.fault = StickyError()
        with pytest.raises(DeviceLostError):
            watched.maintain()

    engine.meanwhile = lose
    with pytest.raises(DeviceLostError):
        watched.maintain()
    with pytest.raises(DeviceLostError):
        watched.search(unit(1), WantedNeighbours(ItemKind.SEGMENT, scope(), 3))
    with pytest.raises(DeviceLostError):
        watched.apply([], [])
    assert device.ended == 1


async def test_hits_keep_their_order_while_the_rerankers_device_is_lost() -> None:
    device = Device()
    cross_encoder = WatchedCrossEncoder(CrossEncoderOnDevice(device), device.watch("reranker"))
    async with QueuedReranker(lambda: cross_encoder, load_at_start=True) as reranker:
        await settled(reranker)
        device.fault = StickyError()
        with pytest.raises(DependencyError, match="reranker: the model failed"):
            await reranker.rerank("goa", ["we sailed"], soon())

    assert device.ended == 1


class OneTask:
    """A change log with one row to embed, which remembers what was set aside."""

    def __init__(self) -> None:
        self.aside: list[str] = []

    async def embedding_tasks(
        self, changes: Sequence[Change], model: EmbeddingModel
    ) -> list[EmbeddingTask]:
        return [EmbeddingTask(change, "goa", b"") for change in changes]

    async def save_embeddings(self, *what: object) -> None:
        raise AssertionError("nothing was embedded")

    async def set_aside(self, *what: object) -> None:
        self.aside.append(str(what))


async def test_no_row_is_set_aside_for_what_was_the_devices_fault() -> None:
    device = Device()
    device.fault = StickyError()
    log = OneTask()
    encoder = WatchedEncoder(EncoderOnDevice(device), device.watch("embedder"))
    async with BatchedEmbedder(encoder) as embedder:
        work = EmbeddingWork(log, embedder)  # type: ignore[arg-type]
        with pytest.raises(DeviceLostError):
            await work.project([Change(1, TENANT, segment("1").item, 1)] * 2)

    assert not log.aside
