"""The graph in Neo4j: the projection of segments and facts, and the walks that search it."""

from serving.adapters.neo4j.graph import Neo4jGraph

__all__ = ["Neo4jGraph"]
