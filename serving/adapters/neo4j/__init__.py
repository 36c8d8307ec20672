"""The graph in Neo4j: the projection of segments and facts, and the search that walks it."""

from serving.adapters.neo4j.graph import Neo4jGraph

__all__ = ["Neo4jGraph"]
