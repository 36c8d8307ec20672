"""Graphiti over the embedded Neo4j: facts as edges, found by their words and their meaning.

Graphiti has a language model extract its edges from episodes. Here they are the facts of the set,
and a hit is what a fact rests on.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
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

from bench.peers.peer import LIST_DEPTH, Passage, StatedFact
from serving.desk.embedded_neo4j.launcher import EmbeddedNeo4j
from serving.ports.embedding import Vector

HEAP_MB = 512
WRITTEN_AT_ONCE = 500


class GraphMemory:
    """One graph of all tenants, each a group of its own.

    Args:
        uri: Neo4j's address.
        pid: Neo4j's process, whose CPU time counts.
        facts: Of each tenant.
    """

    name = "Graphiti"
    lacks = "texts without facts, network, deadline"

    def __init__(self, uri: str, pid: int, facts: Mapping[str, Sequence[StatedFact]]) -> None:
        self._driver = Neo4jDriver(uri, None, None)
        self._graphiti = Graphiti(
            graph_driver=self._driver,
            llm_client=_NoModel(None),
            embedder=_NoEmbedder(),
            cross_encoder=_NoCrossEncoder(),
        )
        self._server = psutil.Process(pid)
        self._facts = facts
        # Names of groups are restricted to letters, digits, - and _.
        self._groups = {tenant: f"tenant-{number}" for number, tenant in enumerate(facts)}
        self._search = EDGE_HYBRID_SEARCH_RRF.model_copy(update={"limit": LIST_DEPTH}, deep=True)

    async def fill(self, memories: Mapping[str, Sequence[Passage]]) -> None:
        """Writes the facts; passages are what they rest on, and are not stored."""
        del memories
        await self._graphiti.build_indices_and_constraints()
        for tenant, facts in self._facts.items():
            nodes, edges = _graph_of(facts, self._groups[tenant])
            await self._write(list(nodes.values()), [])
            for start in range(0, len(edges), WRITTEN_AT_ONCE):
                await self._write([], edges[start : start + WRITTEN_AT_ONCE])

    async def _write(self, nodes: list[EntityNode], edges: list[EntityEdge]) -> None:
        await add_nodes_and_edges_bulk(self._driver, [], [], nodes, edges, self._graphiti.embedder)

    async def search(self, tenant: str, text: str, vector: Vector, limit: int) -> list[str]:
        """Fuses with Graphiti's own reciprocal ranks, whose rank constant is 1."""
        if (group := self._groups.get(tenant)) is None:
            return []
        found = await self._graphiti.search_(
            text, self._search, group_ids=[group], query_vector=vector.tolist()
        )
        return list(dict.fromkeys(id_ for edge in found.edges for id_ in edge.episodes))[:limit]

    def cpu_s(self) -> float:
        """The CPU seconds until now of this process and of Neo4j."""
        times = self._server.cpu_times()
        return time.process_time() + times.user + times.system

    async def close(self) -> None:
        """Closes the connections."""
        await self._graphiti.close()


@asynccontextmanager
async def graph_memory(
    folder: Path, cache_dir: Path, facts: Mapping[str, Sequence[StatedFact]]
) -> AsyncIterator[GraphMemory]:
    """Starts a Neo4j for the peer, and stops it at the end."""
    server = EmbeddedNeo4j(folder, cache_dir, heap_mb=HEAP_MB)
    with server as uri:
        assert server.pid is not None, "it has just been started; this is a bug"
        memory = GraphMemory(uri, server.pid, facts)
        try:
            yield memory
        finally:
            await memory.close()


def _graph_of(
    facts: Sequence[StatedFact], group: str
) -> tuple[Mapping[str, EntityNode], list[EntityEdge]]:
    """The entities by name, and an edge for each fact."""
    now = datetime.now(UTC)
    nodes: dict[str, EntityNode] = {}
    edges = []
    for fact in facts:
        for name in (fact.subject, fact.object):
            # Their names are not searched: the vector only has to be there.
            nodes.setdefault(
                name,
                EntityNode(
                    name=name,
                    group_id=group,
                    created_at=now,
                    name_embedding=fact.vector.tolist(),
                ),
            )
        edges.append(
            EntityEdge(
                group_id=group,
                source_node_uuid=nodes[fact.subject].uuid,
                target_node_uuid=nodes[fact.object].uuid,
                created_at=now,
                name=fact.relation,
                fact=fact.sentence,
                fact_embedding=fact.vector.tolist(),
                episodes=list(fact.evidence),
            )
        )
    return nodes, edges


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
