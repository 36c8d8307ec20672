"""A Neo4j for the session, emptied for each test that asks for it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import neo4j
import pytest

from serving.adapters.embedded_neo4j import EmbeddedNeo4j
from serving.adapters.neo4j import Neo4jGraph
from serving.adapters.neo4j.graph import Neo4jSettings


@pytest.fixture(scope="session")
def jar_cache() -> Path:
    """The user's own cache, so that the jars are fetched once and not once a run."""
    base = os.environ.get("XDG_CACHE_HOME")  # noqa: TID251 - tests have no settings
    return (Path(base) if base else Path.home() / ".cache") / "trivium"


@pytest.fixture(scope="session")
def neo4j_uri(tmp_path_factory: pytest.TempPathFactory, jar_cache: Path) -> Iterator[str]:
    """The address of a server that has the schema."""
    with EmbeddedNeo4j(tmp_path_factory.mktemp("neo4j"), jar_cache) as uri:
        yield uri


@pytest.fixture
def cypher(neo4j_uri: str) -> Iterator[neo4j.Driver]:
    """A way past the adapter, for what it would never write and to look at what it did."""
    with neo4j.GraphDatabase.driver(neo4j_uri) as driver:
        yield driver


@pytest.fixture
async def neo4j_graph(neo4j_uri: str, cypher: neo4j.Driver) -> AsyncIterator[Neo4jGraph]:
    """The adapter over an empty graph."""
    graph = Neo4jGraph(Neo4jSettings(uri=neo4j_uri))
    try:
        await graph.prepare()
        cypher.execute_query("MATCH (node) DETACH DELETE node")
        yield graph
    finally:
        await graph.close()
