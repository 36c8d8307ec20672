"""mem0 without a language model (`infer=False`), over its local store.

Its words need the package fastembed, which downloads a model, and a model of spaCy for their lemmas
and for entities. Instead it has Qdrant's BM25, as `qdrant.py` does, of the texts as they are.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

os.environ.setdefault("MEM0_TELEMETRY", "false")  # noqa: TID251 - mem0 reads it
os.environ.setdefault("MEM0_DIR", str(Path(tempfile.gettempdir(), "trb-mem0")))  # noqa: TID251

import numpy as np
from mem0 import Memory

from bench.peers.peer import Memories, Peer
from bench.peers.qdrant import words_of_qdrant
from serving.ports.embedding import Vector

ID = "passage"
_NO_KEY = {"provider": "openai", "config": {"api_key": "none"}}


class Mem0(Peer):
    """A memory for each tenant, so that the weights of words are those of the tenant.

    mem0 adds cosine and BM25, whose scores it maps to 0 to 1, for the 40 to 80 nearest passages.
    """

    name = "mem0"
    lacks = "network, graph, deadline"
    rank_constants = (None,)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._memories: dict[str, Memory] = {}
        self._given = _Given()

    async def fill(self, memories: Memories) -> None:
        """Adds every passage as one message."""
        for number, (tenant, passages) in enumerate(memories.items()):
            memory = self._memories[tenant] = self._opened(number, len(passages[0].vector))
            for passage in passages:
                self._given.vector = passage.vector
                memory.add(passage.text, user_id=tenant, metadata={ID: passage.id}, infer=False)

    async def search(self, tenant: str, text: str, vector: Vector, limit: int) -> list[str]:
        """Searches as mem0 does by default, but for the number of hits."""
        self._given.vector = vector
        found = self._memories[tenant].search(text, top_k=limit, filters={"user_id": tenant})
        return [hit["metadata"][ID] for hit in found["results"]]

    def close(self) -> None:
        """Closes the memories."""
        for memory in self._memories.values():
            memory.close()
            memory.vector_store.client.close()

    def _opened(self, number: int, dimension: int) -> Memory:
        place = self._folder / str(number)
        place.mkdir(parents=True)
        store = {"path": str(place), "embedding_model_dims": dimension}
        memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": store},
                "history_db_path": str(place / "history.db"),
                "llm": _NO_KEY,
                "embedder": _NO_KEY,
            }
        )
        memory.embedding_model = self._given
        memory.vector_store._bm25_encoder = _Words()
        return memory


class _Given:
    """In place of an embedding model: the vector of the text that is added or searched."""

    vector: Vector

    def embed(self, *_: object) -> list[float]:
        floats: list[float] = self.vector.tolist()
        return floats


class _Words:
    """In place of fastembed's BM25."""

    def __init__(self) -> None:
        self._bm25 = words_of_qdrant()

    def embed(self, texts: Sequence[str]) -> Iterator[SimpleNamespace]:
        for words in map(self._bm25.embed_document, texts):
            yield SimpleNamespace(
                indices=np.asarray(words.indices), values=np.asarray(words.values)
            )
