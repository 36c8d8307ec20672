"""`AuditLog` in PostgreSQL."""

from __future__ import annotations

from datetime import timedelta

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import Connection
from serving.ports.audit_log import AuditEntry, present_actor

_COLUMNS = ", ".join(AuditEntry._fields)
_SET = AuditEntry._fields[2:]
_LOG = f"INSERT INTO audit_entry ({', '.join(_SET)}) VALUES ({', '.join(['%s'] * len(_SET))})"


async def log_change(
    connection: Connection,
    tenant: str,
    *,
    created: int = 0,
    updated: int = 0,
    erased: int = 0,
    key_id: str = "",
) -> None:
    """Logs a change of the present actor, if there is one; `connection` is in its transaction."""
    actor = present_actor()
    if actor is not None:
        values = [*actor, tenant, created, updated, erased, key_id]
        await connection.execute(_LOG, values, prepare=True)


class PostgresAuditLog:
    """Entries in the table `audit_entry`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def entries(self, tenant: str, before: int | None, limit: int) -> list[AuditEntry]:
        of_tenant = "AND tenant = %(tenant)s::text" if tenant else ""
        below = "" if before is None else "AND number < %(before)s::int8"
        async with self._database.work() as connection:
            rows = await connection.fetch_all(
                f"SELECT {_COLUMNS} FROM audit_entry WHERE true {of_tenant} {below}"
                " ORDER BY number DESC LIMIT %(limit)s::int4",
                {"tenant": tenant, "before": before, "limit": limit},
            )
        return [AuditEntry(*row) for row in rows]

    async def delete_older(self, age: timedelta) -> None:
        async with self._database.work() as connection:
            await connection.execute("DELETE FROM audit_entry WHERE at < now() - %s", [age])
