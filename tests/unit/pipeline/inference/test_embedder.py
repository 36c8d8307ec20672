"""One encoder, many callers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
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
from tests.fakes.meaning import (
    FakeEncoder,
    GatedEncoder,
    PoisonedEncoder,
    WatchedEncoder,
)
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
    encoder = GatedEncoder()
    async with BatchedEmbedder(encoder, None, lambda *batch: told.append(batch)) as embedder:
        first = await begin(embedder.embed_query("first", soon()))
        await encoder.entered()
        later = [await begin(embedder.embed_query(f"later {n}", soon())) for n in range(5)]
        bulk = await begin(embedder.embed_documents(["a note", "another"]))
        encoder.release(3)
        await asyncio.gather(first, *later, bulk)

    assert told == [("query", 1), ("query", 5), ("bulk", 2)]


async def test_every_caller_of_a_batch_gets_its_own_answer() -> None:
    encoder = GatedEncoder()
    texts = ["red", "green sea", "blue", "red"]
    async with BatchedEmbedder(encoder) as embedder:
        first = await begin(embedder.embed_query("first", soon()))
        await encoder.entered()
        tasks = [await begin(embedder.embed_query(text, soon())) for text in texts]
        encoder.release(2)
        vectors = await asyncio.gather(*tasks)
        await first

    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(vector, alone(text), rtol=1e-6)


async def test_equal_questions_share_a_row() -> None:
    encoder = GatedEncoder()
    async with BatchedEmbedder(encoder) as embedder:
        first = await begin(embedder.embed_query("first", soon()))
        await encoder.entered()
        equal = [await begin(embedder.embed_query("who sailed", soon())) for _ in range(3)]
        encoder.release(2)
        one, other, _ = await asyncio.gather(*equal)
        await first

    assert [len(batch) for batch in encoder.batches] == [1, 1]
    np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(one)[0] = 0


async def test_a_batch_of_questions_keeps_to_its_budget() -> None:
    encoder = GatedEncoder()
    async with BatchedEmbedder(encoder, BatchLimits(query_tokens=4)) as embedder:
        first = await begin(embedder.embed_query("first", soon()))
        await encoder.entered()
        later = [await begin(embedder.embed_query(f"two {n}", soon())) for n in range(5)]
        encoder.release(4)
        await asyncio.gather(first, *later)

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


async def test_documents_return_in_order_with_window_rows() -> None:
    encoder = FakeEncoder(window=4)
    texts = ["one two three four five six", "one", "two three"]
    async with BatchedEmbedder(encoder, BatchLimits(bulk_tokens=3)) as embedder:
        rows = await embedder.embed_documents(texts)

    expected = [encoder.encode(encoder.tokenize_document(text)) for text in texts]
    assert [len(windows) for windows in rows] == [2, 1, 1]
    for made, wanted in zip(rows, expected, strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-6)


async def test_windows_of_several_calls_share_a_batch() -> None:
    encoder = GatedEncoder()
    async with BatchedEmbedder(encoder) as embedder:
        first = await begin(embedder.embed_query("first", soon()))
        await encoder.entered()
        calls = [await begin(embedder.embed_documents([f"text {n}"])) for n in range(3)]
        encoder.release(2)
        await asyncio.gather(first, *calls)

    assert [len(batch) for batch in encoder.batches] == [1, 3]


async def test_no_documents_need_no_encoder() -> None:
    async with BatchedEmbedder(GatedEncoder()) as embedder:
        assert await embedder.embed_documents([]) == []


async def test_cancelled_question_frees_its_place_at_once() -> None:
    encoder = GatedEncoder()
    async with BatchedEmbedder(encoder, BatchLimits(waiting_queries=1)) as embedder:
        first = await begin(embedder.embed_query("first", soon()))
        await encoder.entered()
        unwanted = await begin(embedder.embed_query("unwanted", soon()))
        await cancel(unwanted)
        assert embedder.waiting_queries == 0

        last = await begin(embedder.embed_query("last", soon()))
        encoder.release(2)
        await asyncio.gather(first, last)

    assert first_words(encoder.batches, "first unwanted last") == ["first", "last"]


async def test_a_caller_does_not_wait_beyond_its_deadline() -> None:
    encoder = GatedEncoder()
    async with BatchedEmbedder(encoder) as embedder:
        first = await begin(embedder.embed_query("first", soon()))
        await encoder.entered()

        with pytest.raises(TimeoutError):
            await embedder.embed_query("late", Deadline.after(0.01))
        encoder.release()
        await first


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


@pytest.mark.parametrize(
    "ask",
    [
        lambda embedder: embedder.embed_query("more", soon()),
        lambda embedder: embedder.embed_documents(["more"]),
    ],
    ids=["questions", "documents"],
)
async def test_full_queue_rejects_with_a_retry_delay(
    ask: Callable[[BatchedEmbedder], Awaitable[object]],
) -> None:
    encoder = GatedEncoder()
    limits = BatchLimits(waiting_queries=1, waiting_documents=1)
    async with BatchedEmbedder(encoder, limits) as embedder:
        first = await begin(embedder.embed_query("first", soon()))
        await encoder.entered()
        waiting = await begin(ask(embedder))

        with pytest.raises(OverloadedError) as refused:
            await ask(embedder)
        encoder.release(2)
        await asyncio.gather(first, waiting)

    assert refused.value.retry_after_s > 0


async def test_oversized_call_enters_an_empty_queue() -> None:
    async with BatchedEmbedder(FakeEncoder(), BatchLimits(waiting_documents=2)) as embedder:
        rows = await embedder.embed_documents(["one", "two", "three"])

    assert len(rows) == 3


async def test_error_fails_only_its_batch() -> None:
    texts = ("before", "poison", "after")
    async with BatchedEmbedder(PoisonedEncoder(), ONE_WINDOW) as embedder:
        outcomes = await asyncio.gather(
            *(embedder.embed_query(text, soon()) for text in texts),
            *(embedder.embed_documents([text, "more"]) for text in texts),
            return_exceptions=True,
        )

    failed = [isinstance(outcome, RuntimeError) for outcome in outcomes]
    assert failed == 2 * [False, True, False]


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
    async with BatchedEmbedder(Unsound(made)) as embedder:
        outcomes = await asyncio.gather(
            *(embedder.embed_query(text, soon()) for text in texts),
            *(embedder.embed_documents([text]) for text in texts),
            return_exceptions=True,
        )

    unsound = [isinstance(outcome, UnsoundVectorError) for outcome in outcomes]
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
        with pytest.raises(ValueError, match=r"no tokens|shorter"):
            await embedder.embed_query("question", soon())
        with pytest.raises(ValueError, match=r"no tokens|shorter"):
            await embedder.embed_documents(["document"])


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


async def test_text_split_ahead_is_encoded_equally() -> None:
    texts = [f"one two three {'four ' * number}" for number in range(30)]
    limits = BatchLimits(bulk_characters=40, bulk_tokens=8)
    alone = FakeEncoder(window=4)
    async with BatchedEmbedder(FakeEncoder(window=4, is_accelerator=True), limits) as embedder:
        calls = [embedder.embed_documents(texts[start::3]) for start in range(3)]
        made = await asyncio.gather(*calls)

    for start, rows in enumerate(made):
        for text, windows in zip(texts[start::3], rows, strict=True):
            expected = alone.encode(alone.tokenize_document(text))
            np.testing.assert_allclose(windows, expected, rtol=1e-6)


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
