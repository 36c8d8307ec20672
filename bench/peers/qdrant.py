"""Qdrant Edge: Qdrant's engine in this process, with its own BM25 and fusion."""

from __future__ import annotations

from pathlib import Path

import qdrant_edge as qdrant

from bench.peers.peer import LIST_DEPTH, STOP_WORDS, Memories, Passage, Peer
from serving.ports.embedding import Vector

MEANING, WORDS = "meaning", "words"


class QdrantEdge(Peer):
    """A shard for each tenant, so that the weights of words are those of the tenant."""

    name = "Qdrant Edge"
    lacks = "network, graph, deadline"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shards: dict[str, qdrant.EdgeShard] = {}
        self._ids: dict[str, list[str]] = {}
        self._bm25 = words_of_qdrant()

    async def fill(self, memories: Memories) -> None:
        """Creates one shard for each tenant."""
        for number, (tenant, passages) in enumerate(memories.items()):
            config = qdrant.EdgeConfig(
                vectors={
                    MEANING: qdrant.EdgeVectorParams(
                        size=len(passages[0].vector), distance=qdrant.Distance.Dot
                    )
                },
                sparse_vectors={WORDS: qdrant.EdgeSparseVectorParams(modifier=qdrant.Modifier.Idf)},
            )
            shard = qdrant.EdgeShard.create(str(self._folder / str(number)), config)
            points = [self._point(place, passage) for place, passage in enumerate(passages)]
            shard.update(qdrant.UpdateOperation.upsert_points(points))
            shard.optimize()
            shard.flush()
            self._shards[tenant] = shard
            self._ids[tenant] = [passage.id for passage in passages]

    async def search(self, tenant: str, text: str, vector: Vector, limit: int) -> list[str]:
        """Lets the engine fuse both lists."""
        meaning = qdrant.Query.Nearest(vector.tolist(), using=MEANING)
        words = qdrant.Query.Nearest(self._bm25.embed_query(text), using=WORDS)
        found = self._shards[tenant].query(
            qdrant.QueryRequest(
                limit=limit,
                prefetches=[
                    qdrant.Prefetch(limit=LIST_DEPTH, query=words),
                    qdrant.Prefetch(limit=LIST_DEPTH, query=meaning),
                ],
                query=qdrant.Fusion.Rrf(k=self.rank_constant),
            )
        )
        ids = self._ids[tenant]
        return [ids[point.id] for point in found]

    def close(self) -> None:
        """Closes the shards."""
        for shard in self._shards.values():
            shard.close()

    def _point(self, place: int, passage: Passage) -> qdrant.Point:
        return qdrant.Point(
            id=place,
            vector={
                MEANING: passage.vector.tolist(),
                WORDS: self._bm25.embed_document(passage.text),
            },
        )


def words_of_qdrant() -> qdrant.Bm25:
    """Qdrant's BM25 with the stop words of every peer."""
    stop_words = qdrant.StopwordsSet(custom=set(STOP_WORDS))
    return qdrant.Bm25(qdrant.Bm25Config(language="english", stopwords=stop_words))
