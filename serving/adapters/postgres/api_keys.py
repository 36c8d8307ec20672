"""`ApiKeys` in PostgreSQL."""

from __future__ import annotations

from dataclasses import fields

from serving.adapters.postgres.audit_log import log_change
from serving.adapters.postgres.connection.pool import Database
from serving.domain.identity import ApiKey, Role

_COLUMNS = [field.name for field in fields(ApiKey)]


class PostgresApiKeys:
    """Keys in the table `api_key`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: ApiKey) -> None:
        values = {name: getattr(key, name) for name in _COLUMNS} | {"roles": sorted(key.roles)}
        places = ", ".join(f"%({name})s" for name in _COLUMNS)
        async with self._database.transaction() as connection:
            await connection.execute(
                f"INSERT INTO api_key ({', '.join(_COLUMNS)}) VALUES ({places})", values
            )
            await log_change(connection, key.tenant or "", key_id=key.id)

    async def revoke(self, key_id: str) -> bool:
        async with self._database.transaction() as connection:
            found = await connection.fetch_all(
                "UPDATE api_key SET revoked_at = coalesce(revoked_at, now()) WHERE id = %s"
                " RETURNING coalesce(tenant, ''), revoked_at = now()",
                [key_id],
            )
            for tenant, is_revoked_now in found:
                if is_revoked_now:
                    await log_change(connection, tenant, key_id=key_id)
            return bool(found)

    async def all(self) -> list[ApiKey]:
        async with self._database.work() as connection:
            rows = await connection.fetch_all(
                f"SELECT {', '.join(_COLUMNS)} FROM api_key ORDER BY created_at, id"
            )
        keys = (dict(zip(_COLUMNS, row, strict=True)) for row in rows)
        return [ApiKey(**key | {"roles": frozenset(map(Role, key["roles"]))}) for key in keys]
