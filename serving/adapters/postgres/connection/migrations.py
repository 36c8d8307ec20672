"""Schema migrations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from psycopg import errors

from serving.adapters.postgres.connection.dsn import with_defaults
from serving.adapters.postgres.connection.errors import store_errors
from serving.adapters.postgres.connection.row_security import prepare_row_security
from serving.adapters.postgres.connection.statements import Connection

logger = logging.getLogger(__name__)

SCRIPTS = tuple(
    file.read_text(encoding="utf-8")
    for file in sorted(Path(__file__).with_name("schema").glob("*.sql"))
)
"""The migrations in their order. The number of those applied is the version of a schema."""

LATEST_VERSION = len(SCRIPTS)
"""The schema version that this program works with."""

_LOCK = 0x54524956
"""The advisory lock held during a migration: "TRIV"."""

LOCK_TIMEOUT_MS = 200
"""The time for which a migration waits for a lock before it gives way and begins again.

Processes of the version before go on writing. PostgreSQL looks for a deadlock after a second, and
might end one of their transactions rather than the migration."""

PAUSE_S = 0.2


class SchemaTooNewError(Exception):
    """A newer version of the service has migrated the database."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(found, known)
        self.found = found
        self.known = known

    def __str__(self) -> str:
        return f"the schema has version {self.found}, this program supports {self.known} at most"


async def migrate(dsn: str, scripts: Sequence[str] = SCRIPTS) -> None:
    """Applies the missing migrations, each in its own transaction.

    Safe to run concurrently and repeatedly. If the database was restored into another cluster, the
    change log is rebuilt.

    Raises:
        StoreUnavailableError: PostgreSQL is unreachable.
        SchemaTooNewError: The schema is newer than this program.
    """
    with store_errors():
        async with await Connection.connect(with_defaults(dsn), autocommit=True) as connection:
            await connection.execute("SELECT pg_advisory_lock(%s::bigint)", [_LOCK])
            await _apply_missing(connection, scripts)
            await _rebuild_restored_log(connection)
            await prepare_row_security(connection)


async def _apply_missing(connection: Connection, scripts: Sequence[str]) -> None:
    found = await _schema_version(connection)
    if found > len(scripts):
        raise SchemaTooNewError(found, len(scripts))
    for version, script in enumerate(scripts[found:], start=found + 1):
        while not await _apply(connection, version, script):
            logger.info("migration blocked by concurrent writes", extra={"version": version})
            await asyncio.sleep(PAUSE_S)
        logger.info("schema migrated", extra={"version": version})


async def _apply(connection: Connection, version: int, script: str) -> bool:
    """Applies a migration; False if it gave way, and changed nothing."""
    try:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
            await connection.execute(script.encode())
            await connection.execute("UPDATE meta SET schema_version = %s::int4", [version])
    except errors.LockNotAvailable:
        return False
    return True


async def _schema_version(connection: Connection) -> int:
    if await connection.fetch_row("SELECT to_regclass('meta') IS NOT NULL") == (False,):
        return 0
    (version,) = await connection.fetch_row("SELECT schema_version FROM meta")
    return int(version)


async def _rebuild_restored_log(connection: Connection) -> None:
    (moved,) = await connection.fetch_row(
        "SELECT meta.cluster_id <> here.system_identifier FROM meta, pg_control_system() AS here"
    )
    if moved:
        async with connection.transaction():
            await begin_log(connection)


async def begin_log(connection: Connection) -> None:
    """Starts a new epoch of the log, in a transaction of the caller, after a restore from a dump.

    The restored ids of transactions speak of another cluster, or of an index and a graph that may
    be further than the dump. A dump has no statistics either, which the search by words reads.
    """
    for statement in (
        """
        UPDATE meta
           SET cluster_id = here.system_identifier, log_epoch = gen_random_uuid(),
               compacted = '3:3:', complete_model = NULL, erased_xid = pg_current_xact_id()
          FROM pg_control_system() AS here
        """,
        "TRUNCATE change_log, log_checkpoint, projection_state, dead_letter",
        "UPDATE segment SET written_xid = pg_current_xact_id()",
        "UPDATE fact SET written_xid = pg_current_xact_id()",
        "UPDATE entity SET added_xid = pg_current_xact_id()",
        """
        INSERT INTO change_log (tenant_id, key, kind, op)
        SELECT tenant_id, key, 'segment', 'written' FROM segment
         UNION ALL
        SELECT tenant_id, key, 'fact', 'written' FROM fact
        """,
        "ANALYZE",
    ):
        await connection.execute(statement)
    logger.warning("database was restored; change log rebuilt")
