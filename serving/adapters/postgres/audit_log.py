"""`AuditLog` in PostgreSQL."""

from __future__ import annotations

from dataclasses import astuple, fields
from datetime import datetime

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import Connection
from serving.ports.audit_log import Actor, AuditEntry, Changed, present_actor

_COLUMNS = ", ".join(field.name for field in (*fields(Actor), *fields(Changed)))


async def log_change(connection: Connection, changed: Changed) -> None:
    """Logs a change of the present actor, if there is one; `connection` is in its transaction."""
    actor = present_actor()
    if actor is not None:
        values = [*astuple(actor), *astuple(changed)]
        places = ", ".join(["%s"] * len(values))
        await connection.execute(
            f"INSERT INTO audit_entry ({_COLUMNS}) VALUES ({places})", values, prepare=True
        )


class PostgresAuditLog:
    """Entries in the table `audit_entry`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def entries(self, tenant: str, before: int | None, limit: int) -> list[AuditEntry]:
        of_tenant = "AND tenant = %(tenant)s::text" if tenant else ""
        async with self._database.work() as connection:
            rows = await connection.fetch_all(
                f"""
                SELECT number, at, {_COLUMNS} FROM audit_entry
                 WHERE number < coalesce(%(before)s::int8, 9223372036854775807) {of_tenant}
                 ORDER BY number DESC LIMIT %(limit)s::int4
                """,
                {"tenant": tenant, "before": before, "limit": limit},
            )
        return [
            AuditEntry(
                number,
                at,
                Actor(caller, rpc),
                Changed(tenant=of, created=created, updated=updated, erased=erased, key_id=key_id),
            )
            for number, at, caller, rpc, of, created, updated, erased, key_id in rows
        ]

    async def delete_before(self, at: datetime) -> None:
        async with self._database.work() as connection:
            await connection.execute("DELETE FROM audit_entry WHERE at < %s::timestamptz", [at])
