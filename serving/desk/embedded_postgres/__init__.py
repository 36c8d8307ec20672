"""An embedded PostgreSQL for the desk and the tests, on a Unix socket only."""

from serving.desk.embedded_postgres.binaries import find_binaries
from serving.desk.embedded_postgres.errors import PostgresStartError
from serving.desk.embedded_postgres.launcher import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "PostgresStartError", "find_binaries"]
