"""The queues of an encoder: questions and documents, each with batches of its own.

If the encoder runs on the CPU, texts are tokenized in the worker's thread, between two batches.
Both need the same cores, and there is little to gain: of the 2.5 ms that a question takes with
all-MiniLM-L6-v2, tokenizing takes 28 us, and handing it to another thread and back 12.

An accelerator computes while the worker's thread waits for it, so other threads tokenize texts
meanwhile (`ahead`). Tokenizing a turn of 140 characters takes about .17 ms, and embedding it by
Qwen3-Embedding-0.6B .12 ms on an H200: one after the other, documents would take more than twice as
long. A question that they have not reached when the device is free is tokenized by the worker,
which would otherwise be idle or start bulk work first.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple, Self

import numpy as np

from serving.domain.budget import Deadline
from serving.domain.errors import UnsoundVectorError
from serving.domain.soundness import sound_rows
from serving.pipeline.inference.device_watch import Watch
from serving.pipeline.inference.latency_model import LatencyModel
from serving.pipeline.inference.worker import deliver, fail, is_wanted
from serving.ports.embedding import Device, Embedding, TextEncoder, TokenIds, Vector, VectorLike

QueueName = Literal["query", "bulk"]

OnBatch = Callable[[QueueName, int], None]
"""Called with the queue and the number of windows of each batch, before it is encoded."""

MIN_ACCELERATED_TOKENS = 256
"""The least size of a bulk batch, however long it takes. Up to about this number of tokens (263 on
an H100, 366 on a GB10) an accelerator is bound by memory bandwidth and more tokens cost almost
nothing, so smaller batches would not reduce the delay of questions."""


ACCELERATED_QUERY_TOKENS = 2048
"""About fifty questions. A few hundred tokens keep an accelerator busy; a larger batch would only
make the first question wait for the last."""

ACCELERATED_BULK_S = 0.002
ACCELERATED_CHARACTERS = 65_536
"""About 16,000 tokens: enough to fill several batches of similar length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """The sizes of batches and queues. The defaults suit a CPU, which gains nothing from more.

    A question may wait for one bulk batch, so small bulk batches favour questions. `query_tokens`
    may be exceeded by the last question of a batch, `bulk_tokens` by a single window.
    `bulk_seconds` bounds the predicted time of a bulk batch, `bulk_characters` the text that is
    tokenized at once, and so sorted by length.
    """

    query_tokens: int = 1024
    bulk_tokens: int = 256
    bulk_seconds: float | None = None
    bulk_characters: int = 8192
    waiting_queries: int = 512
    waiting_documents: int = 4096

    @classmethod
    def for_device(cls, device: Device, *, waiting_queries: int = 512) -> Self:
        """Returns the limits that suit a device.

        A bulk batch on an accelerator may use all of its memory, within the time that it may delay
        a question.
        """
        if not device.is_accelerator:
            return cls(waiting_queries=waiting_queries)
        return cls(
            query_tokens=min(ACCELERATED_QUERY_TOKENS, device.token_budget),
            bulk_tokens=device.token_budget,
            bulk_seconds=ACCELERATED_BULK_S,
            bulk_characters=ACCELERATED_CHARACTERS,
            waiting_queries=waiting_queries,
        )


class Question:
    """A queued question. It is tokenized once, by the first thread that needs the tokens."""

    def __init__(self, text: str, deadline: Deadline) -> None:
        self.text = text
        self.future: Future[VectorLike] = Future()
        self._deadline = deadline
        self._lock = threading.Lock()
        self._tokens: TokenIds | None = None

    def is_wanted(self) -> bool:
        return is_wanted(self.future, self._deadline)

    def tokens(self, encoder: TextEncoder) -> TokenIds:
        """Returns its tokens, with the model's prompt."""
        with self._lock:
            if self._tokens is None:
                self._tokens = encoder.tokenize_query(self.text)
            return self._tokens


class QuestionQueue:
    """Questions, first in, first out. A batch is all that is queued; equal ones are encoded once.

    `ahead` tokenizes queued questions meanwhile; None tokenizes them in the worker.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        most_tokens: int,
        on_batch: OnBatch,
        ahead: Executor | None = None,
        watch: Watch = nullcontext,
    ) -> None:
        self._encoder = encoder
        self._most_tokens = most_tokens
        self._on_batch = on_batch
        self._ahead = ahead
        self._watch = watch
        self._queue: deque[Question] = deque()
        self._added = 0

    @property
    def taken(self) -> int:
        """The number of questions that have left the queue."""
        return self._added - len(self._queue)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def has_work(self) -> bool:
        return bool(self._queue)

    def add(self, question: Question) -> None:
        self._queue.append(question)
        self._added += 1
        if self._ahead is not None:
            self._ahead.submit(self._tokenize_ahead, question)

    def withdraw(self, question: Question) -> None:
        """Removes a question that nobody waits for, if it is still queued."""
        with contextlib.suppress(ValueError):
            self._queue.remove(question)

    def step(self) -> None:
        """Encodes one batch."""
        equal: dict[str, list[Question]] = {}
        windows: dict[str, TokenIds] = {}
        budget = self._most_tokens
        while budget > 0 and (question := self._pop()) is not None:
            if not question.is_wanted():
                continue
            if question.text not in windows:
                try:
                    windows[question.text] = question.tokens(self._encoder)
                except Exception as error:
                    fail(question.future, error)
                    continue
                budget -= len(windows[question.text])
            equal.setdefault(question.text, []).append(question)
        if windows:
            self._encode(list(equal.values()), list(windows.values()))

    def fail_all(self, error: Exception) -> None:
        while self._queue:
            fail(self._queue.popleft().future, error)

    def _pop(self) -> Question | None:
        try:
            return self._queue.popleft()
        except IndexError:  # not asked before: the last one may be withdrawn at any time
            return None

    def _tokenize_ahead(self, question: Question) -> None:
        if question.is_wanted():
            # The error occurs again in the worker, which raises it to the caller.
            with contextlib.suppress(Exception):
                question.tokens(self._encoder)

    def _encode(self, groups: list[list[Question]], windows: list[TokenIds]) -> None:
        self._on_batch("query", len(windows))
        try:
            with self._watch():
                vectors = self._encoder.encode_queries(windows)
            answers = list(zip(groups, vectors, strict=True))
        except Exception as error:
            for question in chain.from_iterable(groups):
                fail(question.future, error)
            return
        for equal, vector in answers:
            for question in equal:
                if vector is None:
                    fail(question.future, UnsoundVectorError())
                else:
                    deliver(question.future, vector)


class Documents:
    """The texts of one call, and what is made of their windows so far."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.future: Future[list[Embedding]] = Future()
        self._rows: list[list[_Row]] = []
        self._missing = 0

    @property
    def untokenized(self) -> int:
        """The number of texts that are not tokenized yet."""
        return len(self.texts) - len(self._rows)

    @property
    def next_text(self) -> str:
        return self.texts[len(self._rows)]

    def split_next(self, windows: Sequence[TokenIds]) -> list[_Piece]:
        """Stores the windows of the next text."""
        text = len(self._rows)
        self._rows.append([_Row(np.empty(0, np.float32), None)] * len(windows))
        self._missing += len(windows)
        return [_Piece(self, text, window, tokens) for window, tokens in enumerate(windows)]

    def put(self, piece: _Piece, row: _Row) -> None:
        """Stores the row of a window; the last one completes the call."""
        self._rows[piece.text][piece.window] = row
        self._missing -= 1
        if self._missing or self.untokenized:
            return
        embeddings = []
        for rows in self._rows:
            states = [row.state for row in rows if row.state is not None]
            embeddings.append(Embedding(np.stack([row.vector for row in rows]), tuple(states)))
        deliver(self.future, embeddings)


class _Row(NamedTuple):
    """The vector of a window, and its entry of the states, if the encoder makes any."""

    vector: Vector
    state: bytes | None


@dataclass(frozen=True, slots=True)
class _Piece:
    """A window of one text of one call."""

    documents: Documents
    text: int
    window: int
    tokens: TokenIds


class DocumentQueue:
    """Documents, of which some at a time are cut into windows and batched by length.

    No window waits for one that was cut later. `ahead` cuts documents meanwhile, one task at a
    time, and `wake` is called when their windows are ready; None cuts them in the worker.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        limits: BatchLimits,
        on_batch: OnBatch,
        wake: Callable[[], None] = lambda: None,
        ahead: Executor | None = None,
        watch: Watch = nullcontext,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._encoder = encoder
        self._limits = limits
        self._on_batch = on_batch
        self._wake = wake
        self._ahead = ahead
        self._watch = watch
        self._clock = clock
        self._latency_model = LatencyModel()
        self._queue: deque[Documents] = deque()
        self._pieces: list[_Piece] = []
        self._lock = threading.Lock()
        """Guards the fields below, which callers, the worker and the thread ahead change."""
        self._cut_ahead: list[_Piece] = []
        self._is_cutting_ahead = False
        self._closed_by: Exception | None = None

    @property
    def waiting(self) -> int:
        """The number of texts that are not cut into windows yet."""
        return sum(documents.untokenized for documents in tuple(self._queue))

    @property
    def has_work(self) -> bool:
        return bool(self._pieces or self._cut_ahead or (self._queue and self._ahead is None))

    def add(self, documents: Documents) -> None:
        self._queue.append(documents)
        with self._lock:
            self._go_ahead()

    def step(self) -> None:
        """Encodes one batch, or cuts some texts if they are not cut ahead."""
        if not self._pieces and self._ahead is None:
            self._pieces = self._cut_some()
            return
        if not self._pieces:
            self._take_over()
        if batch := self._next_batch():
            self._encode(batch)

    def fail_all(self, error: Exception) -> None:
        """Fails all queued documents, and those that are cut later."""
        with self._lock:
            self._closed_by = error
            _fail_all(self._cut_ahead, error)
            self._cut_ahead = []
        _fail_all(self._pieces, error)
        self._pieces = []
        while self._queue:
            fail(self._queue.popleft().future, error)

    # ------------------------------------------------------------ cutting

    def _go_ahead(self) -> None:
        """Starts to cut the next texts, unless some are cut already or being cut."""
        if self._ahead and self._queue and not (self._cut_ahead or self._is_cutting_ahead):
            self._is_cutting_ahead = True
            self._ahead.submit(self._cut_some_ahead)

    def _cut_some_ahead(self) -> None:
        pieces = self._cut_some()
        with self._lock:
            self._is_cutting_ahead = False
            if self._closed_by is not None:
                _fail_all(pieces, self._closed_by)
                return
            self._cut_ahead = pieces
            # Texts whose callers have given up have no windows.
            self._go_ahead()
        self._wake()

    def _take_over(self) -> None:
        with self._lock:
            self._pieces, self._cut_ahead = self._cut_ahead, []
            self._go_ahead()

    def _cut_some(self) -> list[_Piece]:
        pieces: list[_Piece] = []
        budget = self._limits.bulk_characters
        while budget > 0 and self._queue:
            documents = self._queue[0]
            if documents.future.done() or not documents.untokenized:
                self._queue.popleft()
                continue
            budget -= len(documents.next_text)
            try:
                windows = self._encoder.tokenize_document(documents.next_text)
                pieces += documents.split_next(windows)
            except Exception as error:
                fail(documents.future, error)
        # Batches of similar length need the least padding.
        return sorted(pieces, key=lambda piece: len(piece.tokens))

    # ------------------------------------------------------------ encoding

    def _next_batch(self) -> list[_Piece]:
        """Takes the longest windows left, as many as fit into a batch."""
        batch: list[_Piece] = []
        budget = self._most_tokens()
        while self._pieces and (not batch or len(self._pieces[-1].tokens) <= budget):
            piece = self._pieces.pop()
            if not piece.documents.future.done():
                batch.append(piece)
                budget -= len(piece.tokens)
        return batch

    def _most_tokens(self) -> int:
        limits = self._limits
        if limits.bulk_seconds is None:
            return limits.bulk_tokens
        fitting = self._latency_model.tokens_within(limits.bulk_seconds)
        return min(limits.bulk_tokens, max(MIN_ACCELERATED_TOKENS, fitting))

    def _encode(self, batch: list[_Piece]) -> None:
        self._on_batch("bulk", len(batch))
        started = self._clock()
        try:
            with self._watch():
                made = self._encoder.encode_documents([piece.tokens for piece in batch])
            states = made.states or [None] * len(batch)
            answers = list(zip(batch, sound_rows(made.vectors), states, strict=True))
        except Exception as error:
            _fail_all(batch, error)
            return
        self._latency_model.learn(
            sum(len(piece.tokens) for piece in batch), self._clock() - started
        )
        for piece, vector, state in answers:
            if vector is None:
                fail(piece.documents.future, UnsoundVectorError())
            else:
                piece.documents.put(piece, _Row(vector, state))


def _fail_all(pieces: Sequence[_Piece], error: Exception) -> None:
    for piece in pieces:
        fail(piece.documents.future, error)
