"""Connections to PostgreSQL and Neo4j. Neither has to be up when the service starts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from serving.adapters.neo4j import Neo4jGraph
from serving.adapters.neo4j.graph import Neo4jSettings
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.dsn import parses
from serving.adapters.postgres.connection.migrations import SchemaTooNewError, migrate
from serving.composition.background import in_background
from serving.config.settings import Settings
from serving.domain.errors import UnavailableError

logger = logging.getLogger(__name__)

RETRY_S = 0.5


@asynccontextmanager
async def open_postgres(settings: Settings) -> AsyncIterator[Postgres]:
    """Opens the connection pools, and migrates the schema once PostgreSQL is reachable."""
    if settings.postgres.dsn is None:
        raise ValueError("postgres.dsn is not set: name a PostgreSQL with TRIVIUM_POSTGRES__DSN")
    dsn = settings.postgres.dsn.get_secret_value()
    if not parses(dsn):
        raise ValueError("postgres.dsn does not parse: see TRIVIUM_POSTGRES__DSN")
    postgres = Postgres(
        dsn,
        work_connections=settings.postgres.write_connections,
        search_connections=settings.postgres.search_connections,
    )
    async with postgres, in_background(_migrate_when_reachable(dsn)):
        yield postgres


async def _migrate_when_reachable(dsn: str) -> None:
    while True:
        try:
            await migrate(dsn)
            return
        except UnavailableError as error:
            logger.warning(
                "migration deferred: PostgreSQL unreachable", extra={"reason": str(error)}
            )
            await asyncio.sleep(RETRY_S)
        except SchemaTooNewError as error:
            logger.error("schema cannot be used", extra={"reason": str(error)})
            return


@asynccontextmanager
async def open_graph(settings: Settings) -> AsyncIterator[Neo4jGraph]:
    """Opens the driver of Neo4j, which connects when it is first used."""
    graph = Neo4jGraph(graph_settings(settings))
    try:
        yield graph
    finally:
        await graph.close()


def graph_settings(settings: Settings) -> Neo4jSettings:
    """The connection to Neo4j; raises ValueError if the settings name none."""
    if settings.neo4j.uri is None:
        raise ValueError("neo4j.uri is not set: name a Neo4j with TRIVIUM_NEO4J__URI")
    password = settings.neo4j.password
    return Neo4jSettings(
        uri=settings.neo4j.uri,
        user=settings.neo4j.user if password else "",
        password=password.get_secret_value() if password else "",
        database=settings.neo4j.database,
    )
