"""Brings the schema of a database up to date."""

from __future__ import annotations

import logging
from functools import cache
from importlib import resources

from psycopg import AsyncConnection

from serving.adapters.postgres.errors import store_errors
from serving.adapters.postgres.pool import Connection, with_defaults

logger = logging.getLogger(__name__)

_LOCK = 0x54524956
"""The advisory lock of those who migrate: "TRIV"."""


class SchemaTooNewError(Exception):
    """The database was migrated by a newer version of the service."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(found, known)
        self.found = found
        self.known = known

    def __str__(self) -> str:
        return f"the schema has version {self.found}, this program knows {self.known} at most"


async def migrate(dsn: str) -> None:
    """Applies the migrations that the database lacks, each in a transaction of its own.

    May be run by several processes at once, and again. If the database was restored into
    another cluster, the change log starts anew.

    Raises:
        StoreUnavailableError: PostgreSQL cannot be reached.
        SchemaTooNewError: The database is ahead of this program.
    """
    with store_errors():
        async with await AsyncConnection.connect(with_defaults(dsn), autocommit=True) as connection:
            await connection.execute("SELECT pg_advisory_lock(%s::bigint)", [_LOCK])
            await _apply_missing(connection)
            await _adopt_cluster(connection)


async def _apply_missing(connection: Connection) -> None:
    scripts = _scripts()
    found = await _schema_version(connection)
    if found > len(scripts):
        raise SchemaTooNewError(found, len(scripts))
    for version, script in enumerate(scripts[found:], start=found + 1):
        async with connection.transaction():
            await connection.execute(script.encode())
            await connection.execute("UPDATE meta SET schema_version = %s::int4", [version])
        logger.info("schema migrated", extra={"version": version})


@cache
def latest_version() -> int:
    """The version of the schema that this program works with."""
    return len(_scripts())


def _scripts() -> list[str]:
    folder = resources.files("serving.adapters.postgres") / "migrations"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    return [file.read_text(encoding="utf-8") for file in files]


async def _schema_version(connection: Connection) -> int:
    cursor = await connection.execute("SELECT to_regclass('meta') IS NOT NULL")
    if await cursor.fetchone() == (False,):
        return 0
    cursor = await connection.execute("SELECT schema_version FROM meta")
    row = await cursor.fetchone()
    assert row is not None, "meta has no row; this is a bug"
    return int(row[0])


async def _adopt_cluster(connection: Connection) -> None:
    """Starts the log anew if transaction ids did: in a database restored from a dump.

    The ids that the dump brought along mean nothing in this cluster, and could lie ahead of it.
    """
    async with connection.transaction():
        cursor = await connection.execute(
            """
            UPDATE meta
               SET cluster_id = here.system_identifier, log_epoch = gen_random_uuid(),
                   compacted = '3:3:', complete_model = NULL
              FROM pg_control_system() AS here
             WHERE cluster_id <> here.system_identifier
            """
        )
        if cursor.rowcount == 0:
            return
        for statement in (
            "TRUNCATE change_log, log_checkpoint, projection_state, set_aside",
            "UPDATE segment SET written_xid = pg_current_xact_id()",
            "UPDATE fact SET written_xid = pg_current_xact_id()",
            "UPDATE entity SET added_xid = pg_current_xact_id()",
            """
            INSERT INTO change_log (tenant_id, key, kind, op)
            SELECT tenant_id, key, 'segment', 'written' FROM segment
             UNION ALL
            SELECT tenant_id, key, 'fact', 'written' FROM fact
            """,
        ):
            await connection.execute(statement)
    logger.warning("database was restored elsewhere; the log starts anew")
