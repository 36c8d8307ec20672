"""Rewriting of PostgreSQL's files, so that they hold no bytes of removed rows any more.

A removed row stays in its page until PostgreSQL writes over it, and `VACUUM` alone only frees the
space. `VACUUM FULL` writes each table and its indexes into new files, and deletes the former ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

import psycopg
from psycopg.sql import SQL, Identifier

from serving.adapters.postgres.connection.errors import store_errors
from serving.adapters.postgres.connection.pool import Connection, Database
from serving.adapters.postgres.connection.statements import fetch_row
from serving.adapters.postgres.log.compaction import RETENTION


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What may hold removed rows after a vacuum.

    Args:
        at: When the files were written anew.
        warnings: Of what was left as it is.
        wal_files: The files of the WAL besides the current one; None if the role may not ask for
            another one.
        logged_ids: The ids of erased items in the change log.
        logged_until: When the last of them is removed, if the graph has followed by then.
    """

    at: datetime
    warnings: list[str]
    wal_files: int | None
    logged_ids: int
    logged_until: datetime | None


async def vacuum_tables(database: Database) -> Vacuumed:
    """Writes all tables and their statistics anew, and begins another file of the WAL.

    Each table is locked while it is written.

    Raises:
        StoreUnavailableError: PostgreSQL is unreachable, or has no room for the copies.
    """
    warnings: list[str] = []
    async with await database.connect() as connection:
        connection.add_notice_handler(lambda each: warnings.append(each.message_primary or ""))
        with store_errors():
            await _rewrite_tables(connection)
            if not await _delete_outdated_statistics(connection):
                warnings.append("only a superuser may delete the statistics of an empty table")
            await connection.execute("VACUUM FULL pg_catalog.pg_statistic")
            (at,) = await fetch_row(connection, "SELECT clock_timestamp()")
            logged_ids, logged_until = await fetch_row(connection, _LOGGED, [RETENTION])
            wal_files = await _replace_wal(connection)
    return Vacuumed(at, warnings, wal_files, logged_ids, logged_until)


async def _rewrite_tables(connection: Connection) -> None:
    cursor = await connection.execute(f"SELECT relname FROM {_TABLES}")
    tables = SQL(", ").join([Identifier(*row) for row in await cursor.fetchall()])
    await connection.execute(SQL("VACUUM (FULL, ANALYZE) {}").format(tables))


async def _delete_outdated_statistics(connection: Connection) -> bool:
    """Deletes the statistics of empty tables, which `ANALYZE` keeps; returns whether none is left.

    They have ids, names and words.
    """
    try:
        await connection.execute(
            f"DELETE FROM pg_catalog.pg_statistic WHERE starelid IN (SELECT oid FROM {_EMPTY})"
        )
    except psycopg.errors.InsufficientPrivilege:
        (left,) = await fetch_row(
            connection,
            f"SELECT count(*) FROM pg_stats WHERE tablename IN (SELECT relname FROM {_EMPTY})",
        )
        return int(left) == 0
    return True


async def _replace_wal(connection: Connection) -> int | None:
    """Begins a new file, and lets PostgreSQL remove those before it; returns how many are left."""
    try:
        await connection.execute("SELECT pg_switch_wal()")
        await connection.execute("CHECKPOINT")
        (left,) = await fetch_row(connection, _WAL_FILES)
    except psycopg.errors.InsufficientPrivilege:
        return None
    return int(left)


_TABLES: LiteralString = """
pg_class
 WHERE relkind = 'r'
   AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'meta'::regclass)
"""
_EMPTY: LiteralString = f"{_TABLES} AND reltuples = 0"
_LOGGED: LiteralString = "SELECT count(*), max(logged_at) + %s FROM change_log WHERE op = 'erased'"

# A file that PostgreSQL keeps for reuse has a later name and its former content.
_WAL_FILES: LiteralString = """
SELECT count(*) FROM pg_ls_waldir()
 WHERE name ~ '^[0-9A-F]{24}$' AND name <> pg_walfile_name(pg_current_wal_lsn())
"""
