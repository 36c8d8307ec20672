"""A PostgreSQL of its own with two databases of the same rows, one of which lacks something."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
from psycopg.conninfo import make_conninfo

from serving.desk.embedded_postgres import EmbeddedPostgres

SETTINGS = {"autovacuum": "off"}
"""It would come upon one side and not upon the other."""


@contextmanager
def two_databases(
    whole: LiteralString,
    lacking: LiteralString,
    fill: Callable[[str], Coroutine[None, None, None]],
    take_away: LiteralString,
) -> Iterator[dict[str, str]]:
    """Yields the connection strings of both by name, while the server runs.

    Args:
        whole: The name of the database that is filled.
        lacking: That of its copy.
        fill: Writes the rows, given the connection string of a new database.
        take_away: The statement that makes the copy differ.
    """
    with tempfile.TemporaryDirectory(prefix="trivium-bench-") as folder:
        Path(folder).chmod(0o755)  # for the account that runs PostgreSQL for root
        with EmbeddedPostgres(Path(folder) / "server", settings=SETTINGS) as dsn:
            dsns = {name: make_conninfo(dsn, dbname=name) for name in (whole, lacking)}
            _run(dsn, f"CREATE DATABASE {whole}")
            asyncio.run(fill(dsns[whole]))
            _run(dsn, f"CREATE DATABASE {lacking} TEMPLATE {whole}")
            _run(dsns[lacking], take_away)
            for of in dsns.values():
                _run(of, "VACUUM ANALYZE")
            yield dsns


def _run(dsn: str, statement: LiteralString) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)
