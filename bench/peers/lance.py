"""LanceDB: a table of columns with full-text and vector search, by its asynchronous interface.

The synchronous interface takes twice the CPU time.
"""

from __future__ import annotations

from pathlib import Path

import lancedb
import pyarrow as pa
from lancedb.index import FTS, Bitmap
from lancedb.rerankers import RRFReranker

from bench.peers.peer import LIST_DEPTH, STOP_WORDS, Memories, Peer
from serving.ports.embedding import Vector


class Lance(Peer):
    """One table of all tenants; the filter is applied before both searches."""

    name = "LanceDB"
    lacks = "network, graph, deadline"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._table: lancedb.AsyncTable | None = None

    async def fill(self, memories: Memories) -> None:
        """Creates the table and its indexes."""
        stored = [(tenant, each) for tenant, passages in memories.items() for each in passages]
        dimension = len(stored[0][1].vector)
        columns = {
            "id": [passage.id for _, passage in stored],
            "tenant": [tenant for tenant, _ in stored],
            "text": [passage.text for _, passage in stored],
            "vector": pa.array(
                [passage.vector for _, passage in stored], pa.list_(pa.float32(), dimension)
            ),
        }
        database = await lancedb.connect_async(str(self._folder))
        self._table = await database.create_table("passages", pa.table(columns))
        await self._table.create_index("tenant", config=Bitmap())
        await self._table.create_index("text", config=FTS(custom_stop_words=list(STOP_WORDS)))

    async def search(self, tenant: str, text: str, vector: Vector, limit: int) -> list[str]:
        """Fuses with LanceDB's own reranker."""
        assert self._table is not None, "filled before it is searched; this is a bug"
        quoted = tenant.replace("'", "''")
        found = await (
            self._table.query()
            .nearest_to(vector)
            .distance_type("dot")
            .nearest_to_text(text)
            .where(f"tenant = '{quoted}'")
            .limit(LIST_DEPTH)
            .select(["id"])
            .rerank(RRFReranker(K=self.rank_constant))
            .to_arrow()
        )
        ids: list[str] = found["id"].to_pylist()
        return ids[:limit]
