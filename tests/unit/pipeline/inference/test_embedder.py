"""One encoder, many callers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from serving.deployments.handles import RemoteEmbedder
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError, OverloadedError, UnsoundVectorError
from serving.pipeline.inference.embedder import BatchedEmbedder
from serving.pipeline.inference.embedding_queues import BatchLimits
from serving.ports.embedding import Embedder, TextEncoder, Vector
from tests.fakes.deployment import FakeHandle
from tests.fakes.meaning import FakeEncoder, GatedEncoder, PoisonedEncoder, WatchedEncoder
from tests.fakes.reranker import Gate
from tests.support.waiting import begin, cancel

ONE_WINDOW = BatchLimits(query_tokens=1, bulk_tokens=1)


def soon() -> Deadline:
    return Deadline.after(30)


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
    encoder: GatedEncoder, limits: BatchLimits | None = None, measure: Any = None
) -> AsyncIterator[BatchedEmbedder]:
    """An embedder whose encoder is held with the question "first", and goes on at the end."""
    given = () if measure is None else (measure,)
    async with BatchedEmbedder(encoder, limits, *given) as embedder:
        first = await begin(embedder.embed_query("first", soon()))
        await encoder.entered()
        yield embedder
        encoder.release(100)
        await first


async def embedded_together(
    encoder: GatedEncoder, *calls: Call, limits: BatchLimits | None = None, measure: Any = None
) -> list[Any]:
    """What becomes of calls that come while the encoder is held."""
    async with held(encoder, limits, measure) as embedder:
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

    await embedded_together(GatedEncoder(), *calls, measure=lambda *batch: told.append(batch))

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


async def test_closing_fails_what_waits_and_refuses_what_comes() -> None:
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
        await encoder.tokenized()
        await encoder.entered()
        # The device is held from here on.
        question = await begin(embedder.embed_query("question", soon()))
        await encoder.tokenized()
        documents = await begin(embedder.embed_documents(["document"]))
        await encoder.tokenized()
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


async def test_closing_fails_what_is_being_cut_ahead() -> None:
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
