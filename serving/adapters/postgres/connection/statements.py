"""Statements whose result is a single row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from serving.adapters.postgres.connection.pool import Connection

LOG_EPOCH: LiteralString = """
(meta.log_epoch::text
 || replace('-' || left(pg_walfile_name(pg_current_wal_lsn()), 8), '-00000001', ''))
"""
"""The epoch of the change log: of the database and of the server's timeline.

A timeline begins when a standby is promoted or a backup is restored to a point in time. Both give
the ids of transactions that they lost again, so no position of another timeline is used.
"""


async def fetch_row(
    connection: Connection,
    statement: LiteralString,
    values: Sequence[object] | Mapping[str, object] | None = None,
    *,
    prepare: bool | None = None,
) -> tuple[Any, ...]:
    """Executes a statement that always returns a row, and returns that row."""
    cursor = await connection.execute(statement, values, prepare=prepare)
    row = await cursor.fetchone()
    assert row is not None, "the statement returned no row; this is a bug"
    return row


async def current_xid(connection: Connection) -> int:
    """The id of the current transaction, assigned if it has none yet."""
    (xid,) = await fetch_row(connection, "SELECT pg_current_xact_id()::text::int8")
    return int(xid)
