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


TEXT_FORM = "quoted"
"""How texts are written for encoders (`text_to_embed`), as a part of each fingerprint."""


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

    def encode_queries(self, windows: Sequence[TokenIds]) -> Sequence[VectorLike | None]:
        """Encodes the same rows, which stay on the device; None for a zero or infinite one."""


class Embedder(Protocol):
    """Embeds questions and documents as unit vectors."""

    async def model(self) -> EmbeddingModel:
        """Returns the model of the vectors."""

    async def embed_query(self, text: str, deadline: Deadline) -> VectorLike:
        """Embeds a question; it waits for one batch of bulk work at most.

        Raises OverloadedError if the queue is full, and TimeoutError if the deadline passed first.
        """

    async def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        """Embeds texts as bulk work; a text longer than the model's window has a row per window.

        Raises OverloadedError if the queue is full.
        """
