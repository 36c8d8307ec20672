"""Statements whose result is a single row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from serving.adapters.postgres.connection.pool import Connection


async def fetch_row(
    connection: Connection,
    statement: LiteralString,
    values: Sequence[object] | Mapping[str, object] | None = None,
    *,
    prepare: bool | None = None,
    binary: bool = False,
) -> tuple[Any, ...]:
    """Executes a statement that always returns a row, and returns that row."""
    cursor = await connection.execute(statement, values, prepare=prepare, binary=binary)
    row = await cursor.fetchone()
    assert row is not None, "the statement returned no row; this is a bug"
    return row


async def current_xid(connection: Connection) -> int:
    """The id of the current transaction, assigned if it has none yet."""
    (xid,) = await fetch_row(connection, "SELECT pg_current_xact_id()::text::int8")
    return int(xid)
