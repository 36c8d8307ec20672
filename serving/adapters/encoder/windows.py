"""From texts to windows of tokens, and from windows to rows, whatever runs the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from serving.adapters.encoder.checkpoint import WINDOW_OVERLAP, Checkpoint
from serving.models.buckets import batches_by_length
from serving.ports import TokenIds, Vectors

RunBatch = Callable[[Sequence[TokenIds]], NDArray[np.float32]]
"""Windows to float32 (n, native dimension), of any length."""


class WindowTokenizer:
    """Texts into the windows of a checkpoint.

    A text beyond the window goes on in the next, `WINDOW_OVERLAP` tokens back. The
    title and the speaker that begin a segment's text are in its first window
    only: what follows has its context from the overlap.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._query_prompt = checkpoint.query_prompt
        self._document_prompt = checkpoint.document_prompt
        self._tokenizer = Tokenizer.from_file(str(checkpoint.folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(checkpoint.window, stride=WINDOW_OVERLAP)

    def query(self, text: str) -> TokenIds:
        """The first window of a question with its prompt."""
        return list(self._tokenizer.encode(self._query_prompt + text).ids)

    def document(self, text: str) -> list[TokenIds]:
        """All windows of a text."""
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
    """Runs windows in batches of like length.

    Args:
        windows: In any order.
        run: The forward pass.
        dimension: Rows are truncated to it.
        padded_tokens: A pass holds at most so many, padding included. That bounds its memory
            and, the smaller it is, what is wasted on padding.

    Returns:
        float32 (n, dimension), of unit length, in the order of `windows`.
    """
    vectors = np.empty((len(windows), dimension), np.float32)
    for batch in batches_by_length([len(window) for window in windows], padded_tokens):
        rows = run([windows[index] for index in batch])[:, :dimension]
        # After truncation: a Matryoshka prefix of a unit vector is shorter than 1.
        vectors[batch] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return vectors
