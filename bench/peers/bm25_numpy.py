"""The least that finds by words and by meaning: bm25s, one product of NumPy, and a sum of ranks."""

from __future__ import annotations

from collections.abc import Sequence

import bm25s
import numpy as np
import Stemmer

from bench.peers.peer import LIST_DEPTH, STOP_WORDS, Memories, Peer, fused
from serving.ports.embedding import Vector, Vectors


class Bm25Numpy(Peer):
    """An index of words and a matrix of vectors for each tenant."""

    name = "bm25s + NumPy"
    lacks = "durability, updates, network, graph, deadline"

    def __init__(self) -> None:
        self._stemmer = Stemmer.Stemmer("english")
        self._words: dict[str, bm25s.BM25] = {}
        self._vectors: dict[str, Vectors] = {}
        self._ids: dict[str, list[str]] = {}

    async def fill(self, memories: Memories) -> None:
        """Builds one index for each tenant."""
        for tenant, passages in memories.items():
            words = bm25s.BM25(k1=1.2, b=0.75)
            words.index(self._tokens([passage.text for passage in passages]), show_progress=False)
            self._words[tenant] = words
            self._vectors[tenant] = np.stack([passage.vector for passage in passages])
            self._ids[tenant] = [passage.id for passage in passages]

    async def search(self, tenant: str, text: str, vector: Vector, limit: int) -> list[str]:
        """Fuses the best by BM25 and by cosine."""
        ids = self._ids[tenant]
        depth = min(LIST_DEPTH, len(ids))
        places, scores = self._words[tenant].retrieve(
            self._tokens([text]), k=depth, show_progress=False
        )
        by_words = [
            ids[place] for place, score in zip(places[0], scores[0], strict=True) if score > 0
        ]
        cosines = self._vectors[tenant] @ vector
        nearest = np.argsort(-cosines, kind="stable")[:depth]
        return fused([by_words, [ids[place] for place in nearest]], limit, self.rank_constant)

    def _tokens(self, texts: Sequence[str]) -> bm25s.tokenization.Tokenized:
        return bm25s.tokenize(
            texts, stopwords=STOP_WORDS, stemmer=self._stemmer, show_progress=False
        )
