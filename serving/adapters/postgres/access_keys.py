"""`AccessKeys` in PostgreSQL."""

from __future__ import annotations

from serving.adapters.postgres.connection.pool import Database
from serving.domain.identity import AccessKey, Role
from serving.domain.items.records import TenantName


class PostgresAccessKeys:
    """Keys in the table `access_key`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: AccessKey) -> None:
        async with self._database.work() as connection:
            await connection.execute(
                """
                INSERT INTO access_key
                  (id, secret_hash, roles, tenant, note, created_at, expires_at, revoked_at)
                VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
                """,
                [
                    key.id,
                    key.secret_hash,
                    sorted(role.value for role in key.roles),
                    key.tenant,
                    key.note,
                    key.created_at,
                    key.expires_at,
                    key.revoked_at,
                ],
            )

    async def revoke(self, key_id: str) -> bool:
        async with self._database.work() as connection:
            cursor = await connection.execute(
                "UPDATE access_key SET revoked_at = coalesce(revoked_at, now()) WHERE id = %s",
                [key_id],
            )
            return cursor.rowcount == 1

    async def all(self) -> list[AccessKey]:
        async with self._database.work() as connection:
            cursor = await connection.execute(
                "SELECT id, secret_hash, roles, tenant, note, created_at, expires_at, revoked_at "
                "FROM access_key ORDER BY created_at, id",
                binary=True,
            )
            rows = await cursor.fetchall()
        return [
            AccessKey(
                id=id_,
                secret_hash=secret_hash,
                roles=frozenset(map(Role, roles)),
                tenant=None if tenant is None else TenantName(tenant),
                note=note,
                created_at=created_at,
                expires_at=expires_at,
                revoked_at=revoked_at,
            )
            for id_, secret_hash, roles, tenant, note, created_at, expires_at, revoked_at in rows
        ]
