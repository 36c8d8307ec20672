"""A PostgreSQL for the session, and a fresh database with its adapters for each test."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from serving.adapters.embedded_postgres import EmbeddedPostgres
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.migrations import migrate

TEMPLATE = "template_trivium"
QUICK = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "64MB"}
"""For servers whose data need not survive the machine."""

_numbers = count(1)


def pid_of(root: Path) -> int:
    """The pid in the pid file of the server below `root`."""
    return int((root / "pgdata" / "postmaster.pid").read_text().splitlines()[0])


@pytest.fixture(scope="session")
def short_directory() -> Iterator[Path]:
    """A directory with a path that leaves room for a socket, which any user can enter."""
    directory = Path(tempfile.mkdtemp(prefix="trivium-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def postgres_server(short_directory: Path) -> Iterator[str]:
    """The DSN of a server that has the schema in its template database."""
    with EmbeddedPostgres(short_directory / "server", settings=QUICK) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {TEMPLATE}")
        asyncio.run(migrate(make_conninfo(dsn, dbname=TEMPLATE)))
        yield dsn


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """The DSN of a database of that server with the schema, which goes with the body."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        yield make_conninfo(server, dbname=name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_dsn(postgres_server: str) -> Iterator[str]:
    """The DSN of a fresh database with the schema."""
    with fresh_database(postgres_server) as dsn:
        yield dsn


@pytest.fixture
async def postgres(postgres_dsn: str) -> AsyncIterator[Postgres]:
    """The opened adapters of a fresh database."""
    async with Postgres(postgres_dsn) as adapters:
        yield adapters
