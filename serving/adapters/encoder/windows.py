"""From texts to windows of tokens, and from windows to vectors, for any runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from serving.adapters.encoder.checkpoint import WINDOW_OVERLAP, EncoderCheckpoint
from serving.ports.embedding import EmbeddingModel, TokenIds, Vectors

RunBatch = Callable[[Sequence[TokenIds]], NDArray[np.float32]]
"""Windows to float32 (n, native dimension), of any length, on the host."""


class WindowEncoder:
    """The part of a `TextEncoder` that does not depend on the runtime.

    Splits texts into the windows of a checkpoint. Consecutive windows overlap by `WINDOW_OVERLAP`
    tokens. The title and the speaker at the beginning of a segment's text are in its first window
    only; later windows have the overlap as context.
    """

    def __init__(self, checkpoint: EncoderCheckpoint, model: EmbeddingModel | None = None) -> None:
        self._model = model or checkpoint.model
        self._query_prompt = checkpoint.query_prompt
        self._document_prompt = checkpoint.document_prompt
        self._tokenizer = Tokenizer.from_file(str(checkpoint.folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(checkpoint.window, stride=WINDOW_OVERLAP)

    def model(self) -> EmbeddingModel:
        return self._model

    def tokenize_query(self, text: str) -> TokenIds:
        """The first window of a question with its prompt."""
        return list(self._tokenizer.encode(self._query_prompt + text).ids)

    def tokenize_document(self, text: str) -> list[TokenIds]:
        """All windows of a text, at least one."""
        encoding = self._tokenizer.encode(self._document_prompt + text)
        return [list(window.ids) for window in (encoding, *encoding.overflowing)]


def padded(windows: Sequence[TokenIds]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ids and mask, int64 (n, longest); padded at the right, mask 1 where a token is."""
    longest = max(len(window) for window in windows)
    ids = np.zeros((len(windows), longest), np.int64)
    mask = np.zeros((len(windows), longest), np.int64)
    for row, window in enumerate(windows):
        ids[row, : len(window)] = window
        mask[row, : len(window)] = 1
    return ids, mask


def encode_by_length(
    windows: Sequence[TokenIds], run: RunBatch, dimension: int, padded_tokens: int
) -> Vectors:
    """Runs windows in batches of similar length; rows are truncated to `dimension`.

    A pass has at most `padded_tokens`, padding included. That bounds memory; smaller passes waste
    less on padding.

    Returns:
        float32 (n, dimension), of unit length, in the order of `windows`.
    """
    vectors = np.empty((len(windows), dimension), np.float32)
    for batch in batches_by_length([len(window) for window in windows], padded_tokens):
        vectors[batch] = unit_prefixes(run([windows[index] for index in batch]), dimension)
    return vectors


def unit_prefixes(rows: NDArray[np.float32], dimension: int) -> Vectors:
    """The first coordinates of each row, of unit length: float32 (n, dimension)."""
    # A Matryoshka prefix of a unit vector is shorter than 1.
    rows = rows[:, :dimension]
    units: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return units


def batches_by_length(lengths: Sequence[int], padded_tokens: int) -> Iterator[list[int]]:
    """Groups indices into batches of similar length, the shortest first.

    A batch has at most `padded_tokens`, padding included, unless it is a single row.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[place] > padded_tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
