"""Embedding: vectors, and the models that make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from serving.domain.budget import Deadline

Vector = NDArray[np.float32]
"""float32 (dimension,), of unit length, on the host."""

Vectors = NDArray[np.float32]
"""float32 (n, dimension), rows of unit length, C-contiguous, on the host."""


class VectorLike(Protocol):
    """A vector on the host, or one that is still on the device where it was computed.

    An index on the same device reads it there. `numpy.asarray` and pickling copy it to the host.
    """

    def __len__(self) -> int:
        """Its dimension."""

    def __array__(self) -> Vector:
        """Its values, on the host."""


TokenStates = NDArray[np.int8]
"""int8 (tokens, width): the states of a text's content words, on the axes of their model.

Each is 127 long, as far as rounding allows.
"""


AXES_BYTES = 4
"""The length of what identifies axes."""


@dataclass(frozen=True, slots=True, eq=False)
class StatedVector:
    """A vector on the host, with the token states of its text, which have a row or more.

    `axes` identifies what the states are coordinates of: states of other axes cannot be compared.
    """

    values: Vector
    states: TokenStates
    axes: bytes

    def __len__(self) -> int:
        return len(self.values)

    def __array__(
        self, dtype: np.dtype[np.float32] | None = None, /, *, copy: bool | None = None
    ) -> Vector:
        values: Vector = np.asarray(self.values, dtype)
        return values.copy() if copy else values


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """The output of an encoder for windows: their vectors, and the token states of each.

    `states` has an entry for each vector, or none at all if the encoder makes none. An entry is
    the `axes` of the states and then the states, row after row; empty for a window without content
    words.
    """

    vectors: Vectors
    states: tuple[bytes, ...] = ()


TEXT_FORM = "quoted"
"""The version of the form of texts for encoders (`text_to_embed`), a part of each fingerprint."""


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """The model of an embedder. Vectors of different fingerprints cannot be compared."""

    fingerprint: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Device:
    """The device of a model, for batching.

    An accelerator computes while the calling thread waits; a CPU computes in that thread.
    `token_budget` is the most tokens of one pass, padding included; one window may have more.
    """

    is_accelerator: bool
    token_budget: int


TokenIds = Sequence[int]
"""The tokens of one window, special ones included."""


class TextEncoder(Protocol):
    """A sentence encoder on one device. Synchronous.

    One thread encodes at a time; others may tokenize meanwhile.
    """

    def model(self) -> EmbeddingModel:
        """Returns the model of the vectors."""

    def device(self) -> Device:
        """Returns the device that computes it."""

    def tokenize_query(self, text: str) -> TokenIds:
        """Tokenizes a question with the model's prompt, truncated to its window."""

    def tokenize_document(self, text: str) -> list[TokenIds]:
        """Tokenizes a text into one or more overlapping windows."""

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        """Encodes one row per window, in order; a row does not depend on the others."""

    def encode_documents(self, windows: Sequence[TokenIds]) -> Embedding:
        """Encodes the same rows, with the states of their tokens if it makes any."""

    def encode_queries(self, windows: Sequence[TokenIds]) -> Sequence[VectorLike | None]:
        """Encodes the same rows, which stay on the device; None for a zero or infinite one.

        They are `StatedVector`s if it makes states of tokens.
        """


class Embedder(Protocol):
    """Embeds questions and documents as unit vectors."""

    async def model(self) -> EmbeddingModel:
        """Returns the model of the vectors."""

    async def embed_query(self, text: str, deadline: Deadline) -> VectorLike:
        """Embeds a question; it waits for one batch of bulk work at most.

        Raises OverloadedError if the queue is full, and TimeoutError if the deadline passed first.
        """

    async def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        """Embeds texts as bulk work; a text longer than the model's window has a row per window.

        Raises OverloadedError if the queue is full.
        """
