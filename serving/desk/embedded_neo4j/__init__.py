"""An embedded Neo4j that needs no Docker, no installed Java and no manual download."""

from serving.desk.embedded_neo4j.launcher import EmbeddedNeo4j, running_address

__all__ = ["EmbeddedNeo4j", "running_address"]
