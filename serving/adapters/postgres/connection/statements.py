"""Connections, and what their statements return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString, TypeAlias

from psycopg import AsyncConnection

LOG_EPOCH: LiteralString = """
(meta.log_epoch::text
 || replace('-' || left(pg_walfile_name(pg_current_wal_lsn()), 8), '-00000001', ''))
"""
"""The epoch of the change log: of the database and of the server's timeline.

A timeline begins when a standby is promoted or a backup is restored to a point in time. Both give
the ids of transactions that they lost again, so no position of another timeline is used.
"""

Values: TypeAlias = Sequence[object] | Mapping[str, object] | None


class Connection(AsyncConnection[tuple[Any, ...]]):
    """An autocommit connection whose rows are tuples."""

    async def fetch_all(
        self, statement: LiteralString, values: Values = None, *, prepare: bool | None = None
    ) -> list[tuple[Any, ...]]:
        """Executes a statement, and returns its rows, which PostgreSQL sends in binary form."""
        cursor = await self.execute(statement, values, prepare=prepare, binary=True)
        return await cursor.fetchall()

    async def fetch_row(
        self, statement: LiteralString, values: Values = None, *, prepare: bool | None = None
    ) -> tuple[Any, ...]:
        """Executes a statement that always returns a row, and returns that row."""
        rows = await self.fetch_all(statement, values, prepare=prepare)
        assert rows, "the statement returned no row; this is a bug"
        return rows[0]
