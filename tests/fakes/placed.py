"""An encoder that places texts where a test wants them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError
from serving.ports.embedding import Embedding, Vector
from tests.fakes.meaning import FAKE_MODEL, FakeEmbedder


class PlacedEmbedder(FakeEmbedder):
    """Puts each text at the cosine from every question that is given for how it ends; else at 0."""

    def __init__(self, cosines: Mapping[str, float] | None = None) -> None:
        super().__init__()
        self._cosines = {} if cosines is None else cosines

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        return _at(1.0)

    async def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        return [Embedding(_at(self._cosine(text))[None]) for text in texts]

    def _cosine(self, text: str) -> float:
        said = text.removesuffix('"')  # what a speaker said ends with its quotation mark
        return next((of for end, of in self._cosines.items() if said.endswith(end)), 0.0)


def _at(cosine: float) -> Vector:
    vector = np.zeros(FAKE_MODEL.dimension, np.float32)
    vector[:2] = cosine, math.sqrt(1 - cosine**2)
    return vector


class DeafEmbedder(PlacedEmbedder):
    """Hears no question: the leg of meaning is down."""

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        raise DependencyError("embedder", "is down")
