"""The thread that owns a model: its schedule, its latency model, and a lost device."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.errors import DependencyError, DeviceLostError
from serving.domain.items.records import ItemId, ItemKind, TenantName
from serving.pipeline.index import log_following
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.pipeline.inference.device_watch import LOST, DeviceWatch, Watch
from serving.pipeline.inference.embedder import BatchedEmbedder
from serving.pipeline.inference.latency_model import GROWTH, MIN_SPREAD, REMEMBERED, LatencyModel
from serving.pipeline.inference.reranker import QueuedReranker
from serving.pipeline.inference.worker import Worker, first_with_work
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


class ScriptedQueue:
    """Returns the given values, one after the other, then that it has no work."""

    def __init__(self, has_work: Iterable[bool] = ()) -> None:
        self._answers = list(has_work)
        self.stepped = threading.Semaphore(0)
        self.failed_with: list[str] = []

    @property
    def has_work(self) -> bool:
        return self._answers.pop(0) if self._answers else False

    def has_more(self) -> None:
        self._answers.append(True)

    def step(self) -> None:
        self.stepped.release()

    def fail_all(self, error: Exception) -> None:
        self.failed_with.append(str(error))


def test_the_first_queue_with_work_has_its_turn() -> None:
    idle, busy, other = ScriptedQueue(), ScriptedQueue([True]), ScriptedQueue([True])

    assert first_with_work([idle, busy, other]) is busy
    assert first_with_work([idle, other]) is other
    assert first_with_work([idle]) is None


async def test_withdrawn_work_does_not_end_the_worker() -> None:
    worker = Worker("embedder")
    queue = ScriptedQueue([True, False])
    worker.start(queue)
    assert queue.stepped.acquire(timeout=10)
    with worker.changing():
        queue.has_more()

    assert queue.stepped.acquire(timeout=10)
    await worker.close()


async def test_closed_worker_fails_waiting_and_new_work() -> None:
    worker = Worker("embedder")
    queues = ScriptedQueue(), ScriptedQueue()
    worker.start(*queues)
    await worker.close()

    assert [queue.failed_with for queue in queues] == [["embedder: closed"]] * 2
    with pytest.raises(DependencyError, match="closed"), worker.changing():
        raise AssertionError("nothing is added to a closed worker")


async def test_a_rejected_addition_wakes_the_worker_all_the_same() -> None:
    worker = Worker("reranker")
    queue = ScriptedQueue()
    worker.start(queue)

    def refused() -> None:
        with worker.changing():
            queue.has_more()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        refused()

    assert queue.stepped.acquire(timeout=10)
    await worker.close()


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


BATCH_S = 0.0008
TOKEN_S = 0.018e-3 / 16


def learned(*sizes: int, batch_s: float = BATCH_S, token_s: float = TOKEN_S) -> LatencyModel:
    """What batches of these sizes taught, on a device that takes exactly so long."""
    latency_model = LatencyModel()
    for tokens in sizes:
        latency_model.learn(tokens, batch_s + token_s * tokens)
    return latency_model


def predicted(latency_model: LatencyModel, tokens: int) -> float:
    seconds = latency_model.seconds(tokens)
    assert seconds is not None
    return seconds


def test_model_predicts_no_latency_before_a_batch() -> None:
    assert LatencyModel().seconds(100) is None
    assert LatencyModel().tokens_within(1.0) == 0


def test_batches_of_two_sizes_determine_every_latency() -> None:
    latency_model = learned(*[40, 1000] * 5)

    for tokens in (1, 40, 500, 4000):
        assert predicted(latency_model, tokens) == pytest.approx(BATCH_S + TOKEN_S * tokens)


@given(
    sizes=st.lists(st.integers(1, 20_000), min_size=1, max_size=60),
    seconds=st.floats(1e-5, 1.0),
    batch_s=st.floats(0, 0.1),
    token_s=st.floats(0, 1e-4),
)
def test_batch_predicted_to_fit_does_fit(
    sizes: list[int], seconds: float, batch_s: float, token_s: float
) -> None:
    latency_model = learned(*sizes, batch_s=batch_s, token_s=token_s)

    fitting = latency_model.tokens_within(seconds)

    # Below what ran, or among sizes too like to tell batch from token, it is an estimate.
    least, most = min(sizes[-REMEMBERED:]), max(sizes[-REMEMBERED:])
    if fitting > (least if most >= MIN_SPREAD * least else most):
        assert batch_s + token_s * fitting <= seconds * (1 + 1e-6)
    assert fitting <= GROWTH * max(sizes[-REMEMBERED:])


@given(
    sizes=st.permutations(([64, 256, 1600] * REMEMBERED)[:REMEMBERED]),
    slow=st.sets(st.integers(0, REMEMBERED - 1), max_size=3),
)
def test_a_few_batches_that_were_held_up_change_nothing(sizes: list[int], slow: set[int]) -> None:
    latency_model, held_up = LatencyModel(), LatencyModel()
    for place, tokens in enumerate(sizes):
        seconds = BATCH_S + TOKEN_S * tokens
        latency_model.learn(tokens, seconds)
        held_up.learn(tokens, 30 * seconds if place in slow else seconds)

    for tokens in (64, 256, 1600):
        assert predicted(held_up, tokens) == pytest.approx(predicted(latency_model, tokens))


def test_a_device_that_became_slower_is_followed() -> None:
    latency_model = learned(*[64, 1024] * 20)
    for tokens in [64, 1024] * (REMEMBERED // 2):
        latency_model.learn(tokens, 0.1 + 0.001 * tokens)

    assert predicted(latency_model, 1024) == pytest.approx(0.1 + 1.024)


def test_batches_of_equal_size_count_by_tokens() -> None:
    latency_model = learned(*[100] * 10)

    assert predicted(latency_model, 100) == pytest.approx(BATCH_S + 100 * TOKEN_S)
    assert predicted(latency_model, 200) == pytest.approx(2 * predicted(latency_model, 100))


def test_batch_far_beyond_measured_sizes_never_fits() -> None:
    latency_model = learned(100, 400, batch_s=0.001, token_s=0)

    assert latency_model.tokens_within(0.002) == GROWTH * 400
    assert latency_model.tokens_within(0.0005) == 0


def test_doubt_makes_predictions_shorter_until_something_is_learned() -> None:
    latency_model = learned(100)
    before = predicted(latency_model, 100)
    for _ in range(100):
        latency_model.doubt()
    doubted = predicted(latency_model, 100)
    latency_model.learn(100, before)

    assert doubted == pytest.approx(before * math.pow(0.98, 100))
    assert predicted(latency_model, 100) == pytest.approx(before)
