"""One encoder, many callers."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.deployments.handles import RemoteEmbedder
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError, OverloadedError, UnsoundVectorError
from serving.pipeline.inference.embedder import AlternatingSchedule, BatchedEmbedder
from serving.pipeline.inference.embedding_queues import (
    MIN_ACCELERATED_TOKENS,
    BatchLimits,
    DocumentQueue,
    Documents,
    Question,
    QuestionQueue,
    QueueName,
)
from serving.ports.embedding import Embedder, TextEncoder, Vector
from tests.fakes.deployment import FakeHandle
from tests.fakes.meaning import FakeEncoder, GatedEncoder, PoisonedEncoder, WatchedEncoder
from tests.fakes.simulation.simulated_device import Ran, SimulatedEncoder
from tests.support.examples import examples
from tests.support.stepped_clock import SteppedClock
from tests.support.waiting import Gate, begin, cancel
from tests.unit.pipeline.retrieval.retrieving import soon

ONE_WINDOW = BatchLimits(query_tokens=1, bulk_tokens=1)


def alone(text: str) -> Vector:
    encoder = FakeEncoder()
    vector: Vector = encoder.encode([encoder.tokenize_query(text)])[0]
    return vector


def first_words(batches: Sequence[Sequence[Sequence[int]]], words: str) -> list[str]:
    """For batches of one window: the word that each one begins with."""
    encoder = FakeEncoder()
    word_of = {encoder.tokenize_query(word)[0]: word for word in words.split()}
    return [word_of[batch[0][0]] for batch in batches]


Call = Callable[[Embedder], Awaitable[Any]]


def asks(text: str) -> Call:
    return lambda embedder: embedder.embed_query(text, soon())


def embeds(*texts: str) -> Call:
    return lambda embedder: embedder.embed_documents(texts)


@asynccontextmanager
async def held(
    encoder: GatedEncoder, limits: BatchLimits | None = None, **given: Any
) -> AsyncIterator[BatchedEmbedder]:
    """An embedder whose encoder is held with the question "first", and goes on at the end."""
    async with BatchedEmbedder(encoder, limits, **given) as embedder:
        first = await begin(embedder.embed_query("first", soon()))
        await encoder.entered()
        yield embedder
        encoder.release(100)
        await first


async def embedded_together(encoder: GatedEncoder, *calls: Call, **given: Any) -> list[Any]:
    """What becomes of calls that come while the encoder is held."""
    async with held(encoder, **given) as embedder:
        tasks = [await begin(call(embedder)) for call in calls]
        encoder.release(100)
        return await asyncio.gather(*tasks)


TURNS_TO_A_REPLICA = 8
"""Of the event loop, until a call through a fake handle is in a queue; more do no harm."""


def of_this_replica(embedder: Embedder) -> Embedder:
    """The embedder as the placement `single` calls it."""
    return embedder


def of_another_replica(embedder: Embedder) -> Embedder:
    """The embedder as the other deployments of the placement `split` call it."""

    handle: Any = FakeHandle(embedder=embedder)
    return RemoteEmbedder(handle).port


async def test_batch_is_measured_with_its_worker_and_windows() -> None:
    told: list[tuple[str, int]] = []
    calls = [asks(f"later {n}") for n in range(5)] + [embeds("a note", "another"), embeds("third")]

    await embedded_together(GatedEncoder(), *calls, on_batch=lambda *batch: told.append(batch))

    assert told == [("query", 1), ("query", 5), ("bulk", 3)]


async def test_every_caller_of_a_batch_gets_its_own_answer() -> None:
    texts = ["red", "green sea", "blue", "red"]

    vectors = await embedded_together(GatedEncoder(), *map(asks, texts))

    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(vector, alone(text), rtol=1e-6)


async def test_equal_questions_share_a_row() -> None:
    encoder = GatedEncoder()

    one, other, _ = await embedded_together(encoder, *[asks("who sailed")] * 3)

    assert [len(batch) for batch in encoder.batches] == [1, 1]
    np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(one)[0] = 0


async def test_a_batch_of_questions_keeps_to_its_budget() -> None:
    encoder, limits = GatedEncoder(), BatchLimits(query_tokens=4)

    await embedded_together(encoder, *(asks(f"two {n}") for n in range(5)), limits=limits)

    assert [len(batch) for batch in encoder.batches] == [1, 2, 2, 1]


@pytest.mark.parametrize("placed", [of_this_replica, of_another_replica])
async def test_documents_wait_for_all_questions_on_cpus(
    placed: Callable[[Embedder], Embedder],
) -> None:
    encoder = GatedEncoder()
    async with BatchedEmbedder(encoder, ONE_WINDOW) as batched:
        embedder = placed(batched)
        bulk = await begin(embedder.embed_documents(["bulk"] * 3))
        questions = []
        for number in range(4):
            await encoder.entered()  # each question comes while the one before is embedded
            questions.append(await begin(embedder.embed_query(f"q{number}", soon())))
            for _ in range(TURNS_TO_A_REPLICA):
                await asyncio.sleep(0)
            encoder.release()
        encoder.release(3)
        await asyncio.gather(*questions, bulk)

    order = first_words(encoder.batches, "bulk q0 q1 q2 q3")
    assert order == ["bulk", "q0", "q1", "q2", "q3", "bulk", "bulk"]


async def test_no_documents_need_no_encoder() -> None:
    async with BatchedEmbedder(GatedEncoder()) as embedder:
        assert await embedder.embed_documents([]) == []


async def test_cancelled_question_frees_its_place_at_once() -> None:
    encoder = GatedEncoder()
    async with held(encoder, BatchLimits(waiting_queries=1)) as embedder:
        await cancel(await begin(embedder.embed_query("unwanted", soon())))
        assert embedder.waiting_queries == 0

        last = await begin(embedder.embed_query("last", soon()))
        encoder.release(2)
        await last

    assert first_words(encoder.batches, "first unwanted last") == ["first", "last"]


async def test_a_caller_does_not_wait_beyond_its_deadline() -> None:
    async with held(GatedEncoder()) as embedder:
        with pytest.raises(TimeoutError):
            await embedder.embed_query("late", Deadline.after(0.01))


async def test_cancelled_documents_are_dropped_before_their_next_batch() -> None:
    encoder = GatedEncoder()
    async with BatchedEmbedder(encoder, ONE_WINDOW) as embedder:
        unwanted = await begin(embedder.embed_documents(["unwanted"] * 3))
        await encoder.entered()
        await cancel(unwanted)
        wanted = await begin(embedder.embed_documents(["wanted"]))
        encoder.release(2)
        await wanted

    assert first_words(encoder.batches, "unwanted wanted") == ["unwanted", "wanted"]


@pytest.mark.parametrize("ask", [asks("more"), embeds("more")], ids=["questions", "documents"])
async def test_full_queue_rejects_with_a_retry_delay(ask: Call) -> None:
    encoder = GatedEncoder()
    async with held(encoder, BatchLimits(waiting_queries=1, waiting_documents=1)) as embedder:
        waiting = await begin(ask(embedder))

        with pytest.raises(OverloadedError) as refused:
            await ask(embedder)
        encoder.release(2)
        await waiting

    assert refused.value.retry_after_s > 0


async def test_oversized_call_enters_an_empty_queue() -> None:
    async with BatchedEmbedder(FakeEncoder(), BatchLimits(waiting_documents=2)) as embedder:
        rows = await embedder.embed_documents(["one", "two", "three"])

    assert len(rows) == 3


async def failures(
    encoder: TextEncoder,
    kind: type[Exception],
    *calls: Call,
    limits: BatchLimits | None = ONE_WINDOW,
) -> list[bool]:
    """Which of the calls fail so."""
    async with BatchedEmbedder(encoder, limits) as embedder:
        outcomes = await asyncio.gather(*(call(embedder) for call in calls), return_exceptions=True)
    return [isinstance(outcome, kind) for outcome in outcomes]


async def test_error_fails_only_its_batch() -> None:
    texts = ("before", "poison", "after")
    calls = [*map(asks, texts), *(embeds(text, "more") for text in texts)]

    assert await failures(PoisonedEncoder(), RuntimeError, *calls) == 2 * [False, True, False]


class Unsound(FakeEncoder):
    """Makes no vector of the word "poison"."""

    def __init__(self, made: float) -> None:
        super().__init__()
        self._made = made

    def encode(self, windows: Sequence[Sequence[int]]) -> np.ndarray:
        rows = super().encode(windows)
        poisoned = [list(window) == self.tokenize_query("poison") for window in windows]
        rows[poisoned] = self._made
        return rows


@pytest.mark.parametrize("made", [0.0, np.nan, np.inf])
async def test_unsound_vector_fails_only_its_text(made: float) -> None:
    texts = ("before", "poison", "after")
    calls = [*map(asks, texts), *map(embeds, texts)]

    unsound = await failures(Unsound(made), UnsoundVectorError, *calls, limits=None)

    assert unsound == 2 * [False, True, False]


class TooFewRows(FakeEncoder):
    def encode(self, windows: Sequence[Sequence[int]]) -> np.ndarray:
        return super().encode(windows)[:-1]


class NoTokens(FakeEncoder):
    def tokenize_query(self, text: str) -> Sequence[int]:
        raise ValueError("no tokens")

    def tokenize_document(self, text: str) -> list[Sequence[int]]:
        raise ValueError("no tokens")


@pytest.mark.parametrize(
    "encoder",
    [TooFewRows(), NoTokens(), NoTokens(is_accelerator=True)],
    ids=["rows", "tokens", "tokens ahead"],
)
async def test_a_broken_encoder_leaves_nobody_waiting(encoder: TextEncoder) -> None:
    async with BatchedEmbedder(encoder) as embedder:
        for call in (asks("question"), embeds("document")):
            with pytest.raises(ValueError, match=r"no tokens|shorter"):
                await call(embedder)


async def test_closing_fails_waiting_calls_and_refuses_new_ones() -> None:
    encoder = GatedEncoder()
    embedder = BatchedEmbedder(encoder, ONE_WINDOW)
    running = await begin(embedder.embed_query("running", soon()))
    await encoder.entered()
    question = await begin(embedder.embed_query("question", soon()))
    documents = await begin(embedder.embed_documents(["document"]))
    closing = await begin(embedder.close())
    encoder.release()
    await asyncio.gather(running, closing)

    for waiting in (question, documents):
        with pytest.raises(DependencyError, match="closed"):
            await waiting
    with pytest.raises(DependencyError, match="closed"):
        await embedder.embed_query("later", soon())


# ---------------------------------------------------------------- threads


@pytest.mark.parametrize("is_accelerator", [False, True])
async def test_event_loop_neither_tokenizes_nor_encodes(is_accelerator: bool) -> None:
    encoder = WatchedEncoder(is_accelerator=is_accelerator)
    encoder.release(100)
    async with BatchedEmbedder(encoder) as embedder:
        await asyncio.gather(
            *(embedder.embed_query(f"question {number}", soon()) for number in range(20)),
            *(embedder.embed_documents([f"text {number}", "more"]) for number in range(20)),
        )

    assert threading.current_thread().name not in encoder.tokenized_by.values()
    assert encoder.encoded_by == {"embedder"}


async def test_an_accelerator_works_while_the_next_texts_are_tokenized() -> None:
    encoder = WatchedEncoder(is_accelerator=True)
    async with BatchedEmbedder(encoder) as embedder:
        first = await begin(embedder.embed_query("first", soon()))
        await encoder.tokenized.entered()
        await encoder.entered()
        # The device is held from here on.
        question = await begin(embedder.embed_query("question", soon()))
        await encoder.tokenized.entered()
        documents = await begin(embedder.embed_documents(["document"]))
        await encoder.tokenized.entered()
        encoder.release(3)
        await asyncio.gather(first, question, documents)

    names = {encoder.tokenized_by[text].rpartition("_")[0] for text in ("question", "document")}
    assert names == {"tokenizer"}


async def test_a_cpu_tokenizes_between_its_batches() -> None:
    encoder = WatchedEncoder()
    encoder.release(100)
    async with BatchedEmbedder(encoder) as embedder:
        await embedder.embed_query("question", soon())
        await embedder.embed_documents(["document"])

    assert {*encoder.tokenized_by.values()} == encoder.encoded_by


@pytest.mark.parametrize("is_accelerator", [False, True])
async def test_documents_return_in_order_with_window_rows(is_accelerator: bool) -> None:
    texts = [f"one two three {'four ' * number}" for number in range(30)]
    limits = BatchLimits(bulk_characters=40, bulk_tokens=8)
    encoder = FakeEncoder(window=4, is_accelerator=is_accelerator)
    async with BatchedEmbedder(encoder, limits) as embedder:
        calls = [embedder.embed_documents(texts[start::3]) for start in range(3)]
        made = await asyncio.gather(*calls)

    for start, rows in enumerate(made):
        for text, its in zip(texts[start::3], rows, strict=True):
            expected = encoder.encode(encoder.tokenize_document(text))
            np.testing.assert_allclose(its.vectors, expected, rtol=1e-6)


async def test_closing_fails_texts_tokenized_ahead() -> None:
    gate = Gate()

    class SlowTokens(FakeEncoder):
        def tokenize_document(self, text: str) -> list[Sequence[int]]:
            gate.pass_through()
            return super().tokenize_document(text)

    embedder = BatchedEmbedder(SlowTokens(is_accelerator=True))
    first = await begin(embedder.embed_documents(["first"]))
    second = await begin(embedder.embed_documents(["second"]))
    await gate.entered()
    gate.release()
    await gate.entered()
    # The first call has left the queue and is in the hands of the tokenizer's thread alone.
    closing = await begin(embedder.close())
    with pytest.raises(DependencyError, match="closed"):
        await second
    gate.release()
    await closing

    with pytest.raises(DependencyError, match="closed"):
        await first


# ---------------------------------------------------------------- in simulated time


Result = TypeVar("Result")

BULK_S = 0.002
AMPLE_S = 3600.0
WINDOW = 512
ROUNDING = 1 + 1e-6


@dataclass
class Request:
    """A question or a call with documents: what it had, and when it came and was answered."""

    at: float
    texts: Sequence[str]
    done_at: float | None = None

    @property
    def waited_s(self) -> float:
        assert self.done_at is not None
        return self.done_at - self.at

    @property
    def tokens(self) -> int:
        return sum(int(text.partition("*")[2]) for text in self.texts)


class Simulation:
    """Both queues before a simulated device, and the load that comes to them.

    Args:
        batch_s: What the device takes for any batch.
        token_s: What it takes for a token.
        query_tokens: Of a batch of questions; None for what suits an accelerator.
        characters: What is cut into windows at once.
    """

    def __init__(
        self,
        batch_s: float,
        token_s: float,
        *,
        query_tokens: int | None = None,
        characters: int = 65_536,
    ) -> None:
        self.clock = SteppedClock()
        self.device = SimulatedEncoder(self.clock, batch_s=batch_s, token_s=token_s)
        limits = BatchLimits.for_device(self.device.device())
        self.query_tokens = query_tokens or limits.query_tokens
        self.asked: list[Request] = []
        self._workers: list[QueueName] = []
        self._events: list[tuple[float, Callable[[], object]]] = []
        self._questions = QuestionQueue(self.device, self.query_tokens, self._note)
        self._bulk = DocumentQueue(
            self.device,
            replace(limits, bulk_characters=characters),
            self._note,
            clock=self.clock,
        )

    def query(
        self, at: float, text: str, budget_s: float = AMPLE_S, gone_after_s: float | None = None
    ) -> Request:
        question = Question(text, Deadline(at + budget_s, self.clock))
        self.at(at, lambda: self._questions.add(question))
        if gone_after_s is not None:
            self.at(at + gone_after_s, question.future.cancel)
        return self._watched(Request(at, [text]), question.future)

    def documents(self, at: float, texts: Sequence[str]) -> Request:
        documents = Documents(texts)
        self.at(at, lambda: self._bulk.add(documents))
        return self._watched(Request(at, texts), documents.future)

    def at(self, seconds: float, event: Callable[[], object]) -> None:
        self._events.append((seconds, event))

    def run(self) -> None:
        """Goes on until nothing is left to come or to do."""
        events = sorted(self._events, key=lambda event: event[0])
        schedule = AlternatingSchedule(self._questions, self._bulk)
        while True:
            while events and events[0][0] <= self.clock.now:
                events.pop(0)[1]()
            if (queue := schedule.next()) is not None:
                queue.step()
            elif events:
                self.clock.now = events[0][0]
            else:
                return

    def ran(self, worker: QueueName) -> list[Ran]:
        return [ran for ran, of in zip(self.device.ran, self._workers, strict=True) if of == worker]

    def longest_s(self, worker: QueueName) -> float:
        return max((ran.ended - ran.began for ran in self.ran(worker)), default=0.0)

    def _note(self, worker: QueueName, windows: int) -> None:
        self._workers.append(worker)

    def _watched(self, asked: Request, future: Future[Result]) -> Request:
        def note(answered: Future[Result]) -> None:
            if not answered.cancelled() and answered.exception() is None:
                asked.done_at = self.clock.now

        future.add_done_callback(note)
        self.asked.append(asked)
        return asked


def windows_until(simulation: Simulation, seconds: float) -> int:
    return sum(len(ran.windows) for ran in simulation.ran("bulk") if ran.ended <= seconds)


def numbered(sizes: Sequence[int], first: int = 1) -> list[str]:
    return [f"{number}*{tokens}" for number, tokens in enumerate(sizes, start=first)]


batch_seconds = st.floats(1e-5, 0.06)
token_seconds = st.floats(1e-7, 1e-4)
instants = st.floats(0, 0.2)
questions = st.lists(st.tuples(instants, st.integers(8, 60)), max_size=60)
calls = st.lists(
    st.tuples(instants, st.lists(st.integers(1, WINDOW), min_size=1, max_size=40)), max_size=6
)


def loaded(
    simulation: Simulation,
    asked: Sequence[tuple[float, int]],
    called: Sequence[tuple[float, Sequence[int]]],
) -> tuple[list[Request], list[Request]]:
    """Runs a load of questions and of calls with documents; both in the order they came."""
    queries = [
        simulation.query(at, text)
        for (at, _), text in zip(asked, numbered([size for _, size in asked]), strict=True)
    ]
    documents = [
        simulation.documents(at, numbered(sizes, first=1000 * number))
        for number, (at, sizes) in enumerate(called, start=1)
    ]
    simulation.run()
    return sorted(queries, key=lambda each: each.at), sorted(documents, key=lambda each: each.at)


@given(batch_seconds, token_seconds, questions, calls)
def test_questions_in_order_wait_for_one_bulk_batch(
    batch_s: float,
    token_s: float,
    asked: list[tuple[float, int]],
    called: list[tuple[float, list[int]]],
) -> None:
    simulation = Simulation(batch_s, token_s, query_tokens=100)
    queries, _ = loaded(simulation, asked, called)

    of_questions_s = simulation.longest_s("query")
    others_s = simulation.longest_s("bulk") + of_questions_s
    for place, query in enumerate(queries):
        ahead = [
            other for other in queries[:place] if other.done_at is None or other.done_at > query.at
        ]
        batches = 1 + sum(other.tokens for other in ahead) // simulation.query_tokens
        assert query.waited_s <= (others_s + batches * of_questions_s) * ROUNDING
        assert len([ran for ran in simulation.ran("bulk") if overlaps(ran, query)]) <= 1
    answered = [query.done_at or 0 for query in queries]
    assert answered == sorted(answered)


def overlaps(ran: Ran, query: Request) -> bool:
    assert query.done_at is not None
    return ran.ended > query.at and ran.began < query.done_at


@given(batch_seconds, token_seconds, calls)
def test_bulk_batch_takes_no_longer_than_questions_wait(
    batch_s: float, token_s: float, called: list[tuple[float, list[int]]]
) -> None:
    simulation = Simulation(batch_s, token_s)
    loaded(simulation, [], called)

    # What costs next to nothing on an accelerator goes, and so does a window that is longer.
    least_s = simulation.device.cost_s(max(MIN_ACCELERATED_TOKENS, WINDOW))
    assert simulation.longest_s("bulk") <= max(BULK_S, least_s) * ROUNDING


@settings(max_examples=examples(25))
@given(batch_seconds, token_seconds, st.floats(1.1, 10), st.integers(1, 100))
def test_documents_go_on_while_questions_leave_the_device_time(
    batch_s: float, token_s: float, leisure: float, texts: int
) -> None:
    simulation = Simulation(batch_s, token_s)
    question_s = simulation.device.cost_s(38)
    gap_s = question_s * leisure
    documents = simulation.documents(0, numbered([128] * texts, first=1000))
    for number in range(150):
        simulation.query(number * gap_s, f"{number}*38")
    simulation.run()

    bulk_s = sum(ran.ended - ran.began for ran in simulation.ran("bulk"))
    # Questions together take no longer than one by one, and one more comes than gaps are over.
    assert documents.waited_s <= (bulk_s + question_s) / (1 - 1 / leisure) * ROUNDING


def test_documents_keep_most_of_device_under_questions() -> None:
    # About a 0.6B on an H100: .8 ms a batch and 1.2 us a token, with 2,000 questions a second.
    draw = random.Random(0)
    arrivals = list(accumulate(draw.expovariate(2000) for _ in range(4000)))
    texts = numbered([128] * 10_000, first=10_000)
    alone, shared = (Simulation(0.0008, 1.2e-6) for _ in range(2))
    for simulation in (alone, shared):
        simulation.documents(0, texts)
    questions = [
        shared.query(at, text) for at, text in zip(arrivals, numbered([38] * 4000), strict=True)
    ]
    for simulation in (alone, shared):
        simulation.run()

    waited = sorted(question.waited_s for question in questions)
    assert waited[int(0.99 * len(waited))] <= 0.005
    ended = arrivals[-1]
    assert shared.ran("bulk")[-1].ended > ended, "there were documents all the time"
    assert windows_until(shared, ended) >= 0.6 * windows_until(alone, ended)


@given(batch_seconds, token_seconds, calls)
def test_documents_are_encoded_in_order_of_splitting(
    batch_s: float, token_s: float, called: list[tuple[float, list[int]]]
) -> None:
    one_text_at_once = Simulation(batch_s, token_s, characters=1)
    _, documents = loaded(one_text_at_once, [], called)

    encoded = [window[0] for ran in one_text_at_once.ran("bulk") for window in ran.windows]
    came = [int(text.partition("*")[0]) for each in documents for text in each.texts]
    assert encoded == came


@given(
    batch_seconds,
    token_seconds,
    st.lists(st.tuples(instants, st.floats(0, 0.1), st.booleans()), max_size=60),
)
def test_cancelled_or_late_question_is_never_computed(
    batch_s: float, token_s: float, asked: list[tuple[float, float, bool]]
) -> None:
    simulation = Simulation(batch_s, token_s)
    given_up_at: dict[int, float] = {}
    for number, (at, after_s, is_cancelled) in enumerate(asked, start=1):
        until = {"gone_after_s" if is_cancelled else "budget_s": after_s}
        simulation.query(at, f"{number}*38", **until)
        given_up_at[number] = at + after_s
    simulation.run()

    for ran in simulation.device.ran:
        assert all(ran.began <= given_up_at[window[0]] for window in ran.windows)


@pytest.mark.parametrize(
    ("batch_s", "token_s"),
    [(0.8e-3, 0.5e-6), (3.8e-3, 3.7e-6), (53e-3, 58e-6)],
    ids=["0.6B on an H100", "0.6B on a GB10", "8B on a GB10"],
)
def test_bulk_batches_on_measured_devices_fill_their_time(batch_s: float, token_s: float) -> None:
    simulation = Simulation(batch_s, token_s)
    simulation.documents(0, numbered([128] * 2000))
    simulation.run()

    fitting = max(MIN_ACCELERATED_TOKENS, int((BULK_S - batch_s) / token_s))
    later = [sum(map(len, ran.windows)) for ran in simulation.ran("bulk")[20:-1]]
    assert all(fitting * 0.9 - 128 <= tokens <= fitting for tokens in later)
