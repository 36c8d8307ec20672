"""One cross-encoder that may not be there, many callers."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError, NotReadyError, OverloadedError, TooSlowError
from serving.pipeline.inference.reranker import (
    LOADING,
    MAX_WAITING,
    Call,
    QueuedReranker,
    RerankQueue,
)
from serving.ports.reranking import CrossEncoder, Pair
from tests.fakes.reranker import (
    FakeCrossEncoder,
    FixedCrossEncoder,
    GatedCrossEncoder,
    PoisonedCrossEncoder,
    ScriptedLoad,
    TimedCrossEncoder,
    settled,
)
from tests.support.stepped_clock import SteppedClock
from tests.support.waiting import Gate, begin, cancel
from tests.unit.pipeline.retrieval.retrieving import soon

NO_WEIGHTS = DependencyError("reranker", "the checkpoint has no safetensors")


async def why_not(reranker: QueuedReranker) -> str:
    """Why a call is refused now, or "" if it is not."""
    try:
        await reranker.rerank("goa", ["goa"], soon())
    except NotReadyError as error:
        return error.why
    return ""


@asynccontextmanager
async def loaded(
    cross_encoder: CrossEncoder, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[QueuedReranker]:
    """A reranker whose model is there, and was not used yet."""
    loads = ScriptedLoad(cross_encoder)
    async with QueuedReranker(loads, clock=clock) as reranker:
        loads.gate.release()
        await settled(reranker)
        yield reranker


@asynccontextmanager
async def held(
    encoder: GatedCrossEncoder, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[QueuedReranker]:
    """One whose model is held with the text "first", and goes on at the end."""
    async with loaded(encoder, clock) as reranker:
        first = await begin(reranker.rerank("goa", ["first"], Deadline.after(99, clock)))
        await encoder.gate.entered()
        yield reranker
        encoder.gate.release(100)
        await first


# ---------------------------------------------------------------- answering


@pytest.mark.parametrize("tokens", [1, 40, 80, 10_000])
async def test_the_order_is_kept_however_the_work_is_split(tokens: int) -> None:
    texts = ["goa goa goa goa", "sailed to goa", "", "to", "we sailed to goa", "home"]
    async with loaded(FakeCrossEncoder(token_budget=tokens)) as reranker:
        logits = await reranker.rerank("we sailed to goa", texts, soon())

    assert logits == [1.0, 3.0, 0.0, 1.0, 4.0, 0.0]


@pytest.mark.parametrize(
    ("budget", "texts", "batches"),
    [
        # Five tokens more than the text each, and all are padded to the longest: 3 x 8 and 1 x 16.
        (24, ["x" * 11, "a", "bbb", "cc", "y" * 30], [["a", "cc", "bbb"], ["x" * 11], ["y" * 30]]),
        (50 * 16, ["x" * 11] * 50, [["x" * 11] * 50]),
    ],
    ids=["similar lengths", "all"],
)
async def test_batch_has_similar_lengths_within_device_budget(
    budget: int, texts: list[str], batches: list[list[str]]
) -> None:
    encoder = FakeCrossEncoder(token_budget=budget)
    async with loaded(encoder) as reranker:
        await reranker.rerank("goa?", texts, soon())

    assert encoder.batches == batches


async def test_no_texts_need_no_model() -> None:
    loads = ScriptedLoad(NO_WEIGHTS)
    loads.gate.release()
    async with QueuedReranker(loads) as reranker:
        assert await reranker.rerank("goa", [], soon()) == []


# ---------------------------------------------------------------- loading


async def test_calls_during_loading_are_rejected_at_once() -> None:
    loads = ScriptedLoad(FakeCrossEncoder())
    async with QueuedReranker(loads) as reranker:
        await loads.gate.entered()

        assert [await why_not(reranker) for _ in range(3)] == [LOADING] * 3
        loads.gate.release()
        await settled(reranker)
        assert await why_not(reranker) == ""
        assert loads.times == 1


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (NO_WEIGHTS, NO_WEIGHTS.why),
        (RuntimeError("/secret/path"), "cannot be loaded (RuntimeError)"),
    ],
)
async def test_missing_model_is_reported_with_its_reason(
    failure: Exception, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    loads = ScriptedLoad(failure)
    loads.gate.release()
    with caplog.at_level(logging.INFO):
        async with QueuedReranker(loads) as reranker:
            await settled(reranker)

            assert await why_not(reranker) == told
    assert [record.__dict__["reason"] for record in caplog.records] == [told]


async def test_failed_load_is_retried_after_a_pause() -> None:
    now = 0.0
    loads = ScriptedLoad(NO_WEIGHTS, FakeCrossEncoder())
    loads.gate.release(2)
    async with QueuedReranker(loads, clock=lambda: now) as reranker:
        await settled(reranker)

        now = 59.0
        assert [await why_not(reranker) for _ in range(3)] == [NO_WEIGHTS.why] * 3
        assert loads.times == 1

        now = 60.0
        assert await why_not(reranker) == LOADING
        await settled(reranker)
        assert await why_not(reranker) == ""
        assert loads.times == 2


# ---------------------------------------------------------------- failing


@pytest.mark.parametrize(
    "outcome",
    [RuntimeError("the text is: secret"), [1.0], [1.0, math.nan], [1.0, math.inf], [1.0, 2.0, 3.0]],
)
async def test_model_error_fails_the_call_without_quoting(
    outcome: Sequence[float] | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        async with loaded(FixedCrossEncoder(outcome)) as reranker:
            with pytest.raises(DependencyError, match="reranker: the model failed") as caught:
                await reranker.rerank("who?", ["a", "b"], soon())

    assert not isinstance(caught.value, NotReadyError)
    assert "secret" not in f"{caught.value} {caplog.text}"


async def test_a_call_that_fails_fails_no_other() -> None:
    async with loaded(PoisonedCrossEncoder()) as reranker:
        with pytest.raises(DependencyError):
            await reranker.rerank("goa", ["goa", "poison"], soon())

        assert await reranker.rerank("goa", ["goa"], soon()) == [1.0]


# ---------------------------------------------------------------- queueing


async def filled(reranker: QueuedReranker, count: int) -> list[asyncio.Task[list[float]]]:
    return [await begin(reranker.rerank("goa", ["goa"], soon())) for _ in range(count)]


async def test_a_call_beyond_the_queue_is_refused_at_once() -> None:
    encoder = GatedCrossEncoder()
    async with held(encoder) as reranker:
        waiting = await filled(reranker, MAX_WAITING)

        with pytest.raises(OverloadedError, match="reranker's queue"):
            await reranker.rerank("goa", ["goa"], soon())
        encoder.gate.release(MAX_WAITING + 1)
        assert await asyncio.gather(*waiting) == [[1.0]] * MAX_WAITING


async def test_cancelled_call_frees_its_place() -> None:
    encoder = GatedCrossEncoder()
    async with held(encoder) as reranker:
        waiting = await filled(reranker, MAX_WAITING - 1)
        with pytest.raises(TimeoutError):
            await reranker.rerank("goa", ["late"], Deadline.after(0.01))
        await cancel(await begin(reranker.rerank("goa", ["unwanted"], soon())))
        last = await begin(reranker.rerank("goa", ["last"], soon()))
        encoder.gate.release(MAX_WAITING + 1)
        await asyncio.gather(*waiting, last)

    assert encoder.batches == [["first"], *[["goa"]] * (MAX_WAITING - 1), ["last"]]


@pytest.mark.parametrize(
    ("waited_s", "error"), [(16, TimeoutError), (11, TooSlowError)], ids=["expired", "too slow"]
)
async def test_call_that_waited_too_long_never_runs(
    waited_s: float, error: type[Exception]
) -> None:
    clock, encoder = SteppedClock(), GatedCrossEncoder()
    async with held(encoder, clock) as reranker:
        # Nothing is known of the latency yet, so it is let in.
        waiting = await begin(reranker.rerank("goa", ["later"], Deadline.after(15, clock)))
        clock.now += waited_s
        encoder.gate.release()

        with pytest.raises(error):
            await waiting
    assert encoder.batches == [["first"]]


async def test_a_cancelled_call_stops_before_its_next_step() -> None:
    encoder = GatedCrossEncoder(token_budget=1)
    async with loaded(encoder) as reranker:
        unwanted = await begin(reranker.rerank("goa", ["a", "bb", "ccc"], soon()))
        await encoder.gate.entered()
        await cancel(unwanted)
        other = await begin(reranker.rerank("goa", ["other"], soon()))
        encoder.gate.release(2)
        await other

    assert encoder.batches == [["a"], ["other"]]


def test_no_call_begins_before_its_tokenization() -> None:
    queue = RerankQueue(FakeCrossEncoder)
    queue.step()
    gone, next_ = (Call("goa", ["goa"], soon()) for _ in range(2))
    queue.add(gone)
    queue.add(next_)
    queue.forget(gone)
    # The worker saw work when the first one was still there.
    queue.step()
    assert not queue.has_work

    queue.tokenize(next_)
    while queue.has_work:
        queue.step()
    assert next_.future.result(timeout=0) == [1.0]


# ---------------------------------------------------------------- predicting


async def test_late_call_is_rejected_with_its_predicted_time() -> None:
    clock = SteppedClock()
    encoder = TimedCrossEncoder(clock)
    async with loaded(encoder, clock=clock) as reranker:
        # Ten tokens, and a second each.
        await reranker.rerank("goa", ["sailed"], Deadline.after(30, clock))
        with pytest.raises(TooSlowError) as refused:
            await reranker.rerank("goa", ["sailed"] * 4, Deadline.after(39, clock))
        await reranker.rerank("goa", ["sailed"] * 4, Deadline.after(41, clock))

    assert (refused.value.predicted_s, refused.value.left_s) == (40, 39)
    assert [len(batch) for batch in encoder.batches] == [1, 4]


async def test_waiting_calls_count_towards_the_predicted_time() -> None:
    clock, encoder = SteppedClock(), GatedCrossEncoder()
    async with loaded(encoder, clock=clock) as reranker:
        first = await begin(reranker.rerank("goa", ["sailed"], Deadline.after(30, clock)))
        await encoder.gate.entered()
        clock.now += 10
        encoder.gate.release()
        await first

        running = await begin(reranker.rerank("goa", ["running"], soon()))
        await encoder.gate.entered()
        before = await begin(reranker.rerank("goa", ["sailed"], Deadline.after(30, clock)))
        with pytest.raises(TooSlowError):
            await reranker.rerank("goa", ["sailed"], Deadline.after(15, clock))
        encoder.gate.release(2)
        await asyncio.gather(running, before)

    assert encoder.batches == [["sailed"], ["running"], ["sailed"]]


async def test_a_slow_spell_is_not_remembered_for_ever() -> None:
    clock = SteppedClock()
    encoder = TimedCrossEncoder(clock)
    async with loaded(encoder, clock=clock) as reranker:
        await reranker.rerank("goa", ["sailed"], Deadline.after(30, clock))
        refused = 0
        while len(encoder.batches) == 1 and refused < 50:
            try:
                await reranker.rerank("goa", ["sailed"], Deadline.after(8, clock))
            except TooSlowError:
                refused += 1
            except TimeoutError:
                # It was tried, and takes as long as it did.
                break

    assert 5 < refused < 50


# ---------------------------------------------------------------- threads


class WatchedCrossEncoder(GatedCrossEncoder):
    """Remembers the threads it was used in; signals when a call is tokenized."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[str] = []
        self.tokenizing = Gate.open()

    def tokenize(self, query: str, texts: Sequence[str]) -> list[Pair]:
        self.threads.append(threading.current_thread().name)
        self.tokenizing.pass_through()
        return super().tokenize(query, texts)

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        self.threads.append(threading.current_thread().name)
        return super().score(pairs)


async def test_event_loop_neither_tokenizes_nor_scores() -> None:
    encoder = WatchedCrossEncoder()
    encoder.gate.release(100)
    async with loaded(encoder) as reranker:
        await asyncio.gather(*(reranker.rerank("goa", ["goa"], soon()) for _ in range(5)))

    assert {*encoder.threads} == {"reranker-tokenizer_0", "reranker"}


async def test_the_next_call_is_tokenized_while_the_model_reads() -> None:
    encoder = WatchedCrossEncoder()
    async with loaded(encoder) as reranker:
        running = await begin(reranker.rerank("goa", ["goa"], soon()))
        await encoder.tokenizing.entered()
        await encoder.gate.entered()
        # The model is held from here on.
        waiting = await begin(reranker.rerank("goa", ["goa"], soon()))
        await encoder.tokenizing.entered()
        encoder.gate.release(2)
        await asyncio.gather(running, waiting)


# ---------------------------------------------------------------- closing


async def test_closing_refuses_waiting_and_new_calls() -> None:
    encoder = GatedCrossEncoder(token_budget=1)
    async with loaded(encoder) as reranker:
        running = await begin(reranker.rerank("goa", ["a", "bb"], soon()))
        await encoder.gate.entered()
        waiting = await begin(reranker.rerank("goa", ["goa"], soon()))
        closing = await begin(reranker.close())
        encoder.gate.release()
        await closing

        for call in (running, waiting, reranker.rerank("goa", ["goa"], soon())):
            with pytest.raises(DependencyError, match="closed"):
                await call
    assert encoder.batches == [["a"]]
