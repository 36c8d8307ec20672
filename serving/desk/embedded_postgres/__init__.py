"""An embedded PostgreSQL for the desk and the tests, on a Unix socket only."""

from serving.desk.embedded_postgres.launcher import EmbeddedPostgres
from serving.desk.embedded_postgres.programs import PostgresStartError, find_binaries

__all__ = ["EmbeddedPostgres", "PostgresStartError", "find_binaries"]
