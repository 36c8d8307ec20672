"""A PostgreSQL of one's own: the desk's and the tests' server, on a Unix socket only."""

from serving.adapters.embedded_postgres.binaries import find_binaries
from serving.adapters.embedded_postgres.errors import PostgresStartError
from serving.adapters.embedded_postgres.launcher import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "PostgresStartError", "find_binaries"]
