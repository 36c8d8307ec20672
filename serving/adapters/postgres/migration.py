"""The migration of a database to this version of the service."""

from __future__ import annotations

from serving.adapters.postgres.connection.migrations import migrate_schema
from serving.adapters.postgres.writes.name_keys import refresh_name_keys


async def migrate(dsn: str) -> None:
    """Applies the missing migrations of the schema, and computes name keys of other versions anew.

    Raises as `migrate_schema` does.
    """
    await migrate_schema(dsn, refresh_name_keys)
