"""Runs a Neo4j for the desk without Docker, Java or a download page."""

from serving.adapters.embedded_neo4j.launcher import EmbeddedNeo4j

__all__ = ["EmbeddedNeo4j"]
