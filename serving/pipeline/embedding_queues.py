"""What waits for an encoder: questions, and documents; each makes batches of its own.

Where the encoder runs on the CPU, tokens are made in the lane's thread, between two batches. Both
need the same cores, and there is next to nothing to win: of the 2.5 ms that a question takes with
all-MiniLM-L6-v2 its tokens are 28 us, and to hand it to another thread and back takes 12.

An accelerator computes while the lane's thread waits for it, so there texts are tokenized
meanwhile by other threads (`ahead`). What they have not come to when the device is free, a
question of a moment ago, the lane tokenizes itself: it would else stand still, or let bulk work
go first.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np

from serving.domain.budget import Deadline
from serving.domain.errors import UnsoundVectorError
from serving.domain.soundness import sound_rows
from serving.pipeline.futures import deliver, fail
from serving.pipeline.pace import Pace
from serving.ports import TextEncoder, TokenIds, Vector, VectorLike, Vectors

LaneName = Literal["query", "bulk"]

OnBatch = Callable[[LaneName, int], None]
"""Told of each batch before it is encoded: its lane, and how many windows it has."""

LEAST_ACCELERATED_TOKENS = 256
"""Of a batch of documents, however long it takes. Up to about so many (263 on an H100, 366 on a
GB10) an accelerator waits for its memory and further tokens cost next to nothing, so smaller
batches would delay questions no less and only waste it."""


class Question:
    """A question that waits. Its tokens are made once, by the first thread that comes to it."""

    def __init__(self, text: str, deadline: Deadline) -> None:
        self.text = text
        self.future: Future[VectorLike] = Future()
        self._deadline = deadline
        self._lock = threading.Lock()
        self._tokens: TokenIds | None = None

    def is_wanted(self) -> bool:
        """Whether somebody still waits; whoever is late is told so."""
        if self._deadline.passed:
            fail(self.future, TimeoutError())
        return not self.future.done()

    def tokens(self, encoder: TextEncoder) -> TokenIds:
        """Its tokens, with the model's prompt."""
        with self._lock:
            if self._tokens is None:
                self._tokens = encoder.tokenize_query(self.text)
            return self._tokens


class QuestionQueue:
    """Questions in the order they came: as many in a batch as wait, equal ones once.

    Args:
        encoder: What makes the vectors.
        most_tokens: Of a batch; one question may have more.
        on_batch: Told of each batch.
        ahead: Where they are tokenized meanwhile; None if they are not.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        most_tokens: int,
        on_batch: OnBatch,
        ahead: Executor | None = None,
    ) -> None:
        self._encoder = encoder
        self._most_tokens = most_tokens
        self._on_batch = on_batch
        self._ahead = ahead
        self._queue: deque[Question] = deque()
        self._taken = 0

    @property
    def taken(self) -> int:
        """The questions that no longer wait, of all that ever did."""
        return self._taken

    @property
    def waiting(self) -> int:
        """The questions that wait."""
        return len(self._queue)

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return bool(self._queue)

    def add(self, question: Question) -> None:
        """Lets a question wait for the next batch."""
        self._queue.append(question)
        if self._ahead is not None:
            self._ahead.submit(self._tokenize_ahead, question)

    def step(self) -> None:
        """Answers the questions of one batch."""
        askers: dict[str, list[Question]] = {}
        windows: dict[str, TokenIds] = {}
        budget = self._most_tokens
        while budget > 0 and self._queue:
            question = self._queue.popleft()
            self._taken += 1
            if not question.is_wanted():
                continue
            if question.text not in windows:
                tokens = self._tokens(question)
                if tokens is None:
                    continue
                windows[question.text] = tokens
                budget -= len(tokens)
            askers.setdefault(question.text, []).append(question)
        if windows:
            self._answer(list(askers.values()), list(windows.values()))

    def fail_all(self, error: Exception) -> None:
        """Fails the questions that wait."""
        while self._queue:
            fail(self._queue.popleft().future, error)

    def _tokenize_ahead(self, question: Question) -> None:
        if question.is_wanted():
            # What goes wrong here goes wrong again in the lane, which tells the caller.
            with contextlib.suppress(Exception):
                question.tokens(self._encoder)

    def _tokens(self, question: Question) -> TokenIds | None:
        try:
            return question.tokens(self._encoder)
        except Exception as error:
            fail(question.future, error)
            return None

    def _answer(self, askers: list[list[Question]], windows: list[TokenIds]) -> None:
        self._on_batch("query", len(windows))
        try:
            vectors = self._encoder.encode_queries(windows)
            answers = list(zip(askers, vectors, strict=True))
        except Exception as error:
            for question in chain.from_iterable(askers):
                fail(question.future, error)
            return
        for equal, vector in answers:
            for question in equal:
                if vector is None:
                    fail(question.future, UnsoundVectorError())
                else:
                    deliver(question.future, vector)


class Documents:
    """One call's texts, and the rows made of them so far."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.future: Future[list[Vectors]] = Future()
        self._rows: list[list[Vector]] = []
        self._missing = 0

    @property
    def untokenized(self) -> int:
        """The texts of which no windows are noted yet."""
        return len(self.texts) - len(self._rows)

    @property
    def next_text(self) -> str:
        """The first of these."""
        return self.texts[len(self._rows)]

    def split_next(self, windows: Sequence[TokenIds]) -> list[_Piece]:
        """Notes the windows of the next text."""
        text = len(self._rows)
        self._rows.append([np.empty(0, np.float32)] * len(windows))
        self._missing += len(windows)
        return [_Piece(self, text, window, tokens) for window, tokens in enumerate(windows)]

    def put(self, piece: _Piece, row: Vector) -> None:
        """Notes the row of a window; the last one completes the call."""
        self._rows[piece.text][piece.window] = row
        self._missing -= 1
        if not self._missing and not self.untokenized:
            deliver(self.future, [np.stack(rows) for rows in self._rows])


@dataclass(frozen=True, slots=True)
class _Piece:
    """A window of one text of one call."""

    documents: Documents
    text: int
    window: int
    tokens: TokenIds


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkLimits:
    """How much of the documents is done at once.

    Args:
        tokens: Of a batch; one window may have more.
        seconds: What a batch may take, as far as can be predicted; None if `tokens` is all that
            counts.
        characters: What is tokenized at once, passed by its last text at most.
    """

    tokens: int
    seconds: float | None
    characters: int


class DocumentQueue:
    """Documents: some at a time are cut into windows, and these into batches of like length.

    No window waits for ones that were cut later.

    Args:
        encoder: What makes the vectors.
        limits: How much is done at once.
        on_batch: Told of each batch.
        wake: Called when there is something to encode that was cut ahead.
        ahead: Where documents are cut meanwhile, one piece of work at a time; None if they are
            not.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        limits: BulkLimits,
        on_batch: OnBatch,
        wake: Callable[[], None] = lambda: None,
        ahead: Executor | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._encoder = encoder
        self._limits = limits
        self._on_batch = on_batch
        self._wake = wake
        self._ahead = ahead
        self._clock = clock
        self._pace = Pace()
        self._queue: deque[Documents] = deque()
        self._pieces: list[_Piece] = []
        self._lock = threading.Lock()
        """Of what follows, which callers, the lane and the thread ahead change."""
        self._cut_ahead: list[_Piece] = []
        self._is_cutting_ahead = False
        self._closed_by: Exception | None = None

    @property
    def waiting(self) -> int:
        """The texts that are not cut into windows yet."""
        return sum(documents.untokenized for documents in tuple(self._queue))

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return bool(self._pieces or self._cut_ahead or (self._queue and self._ahead is None))

    def add(self, documents: Documents) -> None:
        """Lets documents wait."""
        self._queue.append(documents)
        with self._lock:
            self._go_ahead()

    def step(self) -> None:
        """Encodes one batch, or cuts some texts where nobody does that ahead."""
        if not self._pieces and self._ahead is None:
            self._pieces = self._cut_some()
            return
        if not self._pieces:
            self._take_over()
        if batch := self._next_batch():
            self._encode(batch)

    def fail_all(self, error: Exception) -> None:
        """Fails the documents that wait, for good."""
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
        """Has the next texts cut, if none are yet and none are being cut."""
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
            # Nothing came of texts whose callers have gone away.
            self._go_ahead()
        self._wake()

    def _take_over(self) -> None:
        with self._lock:
            self._pieces, self._cut_ahead = self._cut_ahead, []
            self._go_ahead()

    def _cut_some(self) -> list[_Piece]:
        pieces: list[_Piece] = []
        budget = self._limits.characters
        while budget > 0 and self._queue:
            documents = self._queue[0]
            if documents.future.done() or not documents.untokenized:
                self._queue.popleft()
                continue
            budget -= len(documents.next_text)
            pieces += self._cut_next(documents)
        # Windows of like length side by side: a batch is as long as its longest.
        return sorted(pieces, key=lambda piece: len(piece.tokens))

    def _cut_next(self, documents: Documents) -> list[_Piece]:
        try:
            return documents.split_next(self._encoder.tokenize_document(documents.next_text))
        except Exception as error:
            fail(documents.future, error)
            return []

    # ------------------------------------------------------------ encoding

    def _next_batch(self) -> list[_Piece]:
        """The longest windows that are left, as many as may be done at once."""
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
        if limits.seconds is None:
            return limits.tokens
        fitting = self._pace.tokens_within(limits.seconds)
        return min(limits.tokens, max(LEAST_ACCELERATED_TOKENS, fitting))

    def _encode(self, batch: list[_Piece]) -> None:
        self._on_batch("bulk", len(batch))
        started = self._clock()
        try:
            rows = sound_rows(self._encoder.encode([piece.tokens for piece in batch]))
            answers = list(zip(batch, rows, strict=True))
        except Exception as error:
            _fail_all(batch, error)
            return
        self._pace.learn(sum(len(piece.tokens) for piece in batch), self._clock() - started)
        for piece, row in answers:
            if row is None:
                fail(piece.documents.future, UnsoundVectorError())
            else:
                piece.documents.put(piece, row)


def _fail_all(pieces: Sequence[_Piece], error: Exception) -> None:
    for piece in pieces:
        fail(piece.documents.future, error)
