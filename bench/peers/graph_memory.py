"""Graphiti over the embedded Neo4j: passages as edges, found by their words and their meaning.

Graphiti has a language model extract its edges from episodes. Here each passage is one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

os.environ.setdefault("GRAPHITI_TELEMETRY_ENABLED", "false")  # noqa: TID251 - Graphiti reads it

from graphiti_core.cross_encoder.client import CrossEncoderClient
from graphiti_core.driver.neo4j_driver import Neo4jDriver
from graphiti_core.edges import EntityEdge
from graphiti_core.embedder.client import EmbedderClient
from graphiti_core.graphiti import Graphiti
from graphiti_core.llm_client.client import LLMClient
from graphiti_core.nodes import EntityNode
from graphiti_core.search.search_config_recipes import EDGE_HYBRID_SEARCH_RRF
from graphiti_core.utils.bulk_utils import add_nodes_and_edges_bulk

from bench.harness.writing import batches
from bench.peers.peer import LIST_DEPTH, Memories, Peer
from serving.desk.embedded_neo4j.launcher import EmbeddedNeo4j
from serving.ports.embedding import Vector

# Else each search would log that properties, which no edge has, do not exist.
logging.getLogger("neo4j.notifications").setLevel(logging.ERROR)

HEAP_MB = 512


class GraphMemory(Peer):
    """One graph of all tenants, each a group of its own; the CPU time of Neo4j's process counts."""

    name = "Graphiti"
    lacks = "network, deadline"
    rank_constants = (None,)

    def __init__(self, uri: str, pid: int) -> None:
        self._driver = Neo4jDriver(uri, None, None)
        self._graphiti = Graphiti(
            graph_driver=self._driver,
            llm_client=_NoModel(None),
            embedder=_NoEmbedder(),
            cross_encoder=_NoCrossEncoder(),
        )
        self._server = psutil.Process(pid)
        self._groups: dict[str, str] = {}
        self._search = EDGE_HYBRID_SEARCH_RRF.model_copy(
            update={"limit": 2 * LIST_DEPTH}, deep=True
        )

    async def fill(self, memories: Memories) -> None:
        """Writes each passage as an edge from a node of its own; nodes are not searched."""
        await self._graphiti.build_indices_and_constraints()
        for number, (tenant, passages) in enumerate(memories.items()):
            # Names of groups are restricted to letters, digits, - and _.
            group = self._groups[tenant] = f"tenant-{number}"
            memory = _node("memory", group, passages[0].vector)
            await self._write([memory], [])
            for batch in batches(passages):
                nodes = [_node("message", group, passage.vector) for passage in batch]
                edges = [
                    EntityEdge(
                        group_id=group,
                        source_node_uuid=node.uuid,
                        target_node_uuid=memory.uuid,
                        created_at=node.created_at,
                        name="said",
                        fact=passage.text,
                        fact_embedding=passage.vector.tolist(),
                        episodes=[passage.id],
                    )
                    for node, passage in zip(nodes, batch, strict=True)
                ]
                await self._write(nodes, edges)

    async def _write(self, nodes: list[EntityNode], edges: list[EntityEdge]) -> None:
        await add_nodes_and_edges_bulk(self._driver, [], [], nodes, edges, self._graphiti.embedder)

    async def search(self, tenant: str, text: str, vector: Vector, limit: int) -> list[str]:
        """Fuses with Graphiti's own reciprocal ranks, whose rank constant is 1."""
        found = await self._graphiti.search_(
            text, self._search, group_ids=[self._groups[tenant]], query_vector=vector.tolist()
        )
        return [id_ for edge in found.edges for id_ in edge.episodes][:limit]

    def cpu_s(self) -> float:
        """The CPU seconds until now of this process and of Neo4j."""
        times = self._server.cpu_times()
        return super().cpu_s() + times.user + times.system

    async def close(self) -> None:
        """Closes the connections."""
        await self._graphiti.close()


@asynccontextmanager
async def graph_memory(folder: Path, cache_dir: Path) -> AsyncIterator[GraphMemory]:
    """Starts a Neo4j for the peer, and stops it at the end."""
    server = EmbeddedNeo4j(folder, cache_dir, heap_mb=HEAP_MB)
    with server as uri:
        assert server.pid is not None, "it has just been started; this is a bug"
        memory = GraphMemory(uri, server.pid)
        try:
            yield memory
        finally:
            await memory.close()


def _node(name: str, group: str, vector: Vector) -> EntityNode:
    now = datetime.now(UTC)
    return EntityNode(name=name, group_id=group, created_at=now, name_embedding=vector.tolist())


class _NoModel(LLMClient):  # type: ignore[misc]  # untyped for mypy
    """Graphiti requires a language model, which searches do not call."""

    async def _generate_response(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        raise NotImplementedError


class _NoEmbedder(EmbedderClient):  # type: ignore[misc]  # untyped for mypy
    """All vectors are given."""

    async def create(self, input_data: Any) -> list[float]:
        raise NotImplementedError


class _NoCrossEncoder(CrossEncoderClient):  # type: ignore[misc]  # untyped for mypy
    """Nothing is reranked."""

    async def rank(self, query: str, passages: list[str]) -> list[tuple[str, float]]:
        raise NotImplementedError
