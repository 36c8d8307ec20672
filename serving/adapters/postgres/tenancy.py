"""A tenant within a transaction: its lock, its row, and what it is called by."""

from __future__ import annotations

from dataclasses import dataclass

from serving.adapters.postgres.pool import Connection
from serving.domain.errors import InvalidRequestError, TextSearchConfigConflictError, Violation
from serving.domain.records import TenantName

DEFAULT_TEXT_SEARCH_CONFIG = "english"

TENANT_ID = "(SELECT tenant.id FROM tenant WHERE tenant.name = %(tenant)s::text)"
"""The tenant's number by its name, as part of a statement: nothing is cached that erasing a
tenant would have to clear. NULL, which equals nothing, if there is no such tenant."""

_LOCK_CLASS = 0x54524956
"""The first half of the advisory locks of tenants: "TRIV"."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant's row."""

    id: int
    name: TenantName
    text_search_config: str


async def lock_tenant(connection: Connection, name: TenantName, *, exclusive: bool) -> str:
    """Locks the tenant until the transaction ends, and returns the log's epoch.

    Every write holds the lock shared; one that changes what is sensitive, and every erasure,
    holds it alone. So no fact is written past a segment that turns sensitive at that moment,
    and no name or tenant comes back while it is erased.
    """
    shared = "" if exclusive else "_shared"
    cursor = await connection.execute(
        f"SELECT log_epoch::text, pg_advisory_xact_lock{shared}(%s::int4, hashtext(%s)) FROM meta",
        [_LOCK_CLASS, name],
    )
    row = await cursor.fetchone()
    assert row is not None, "meta has no row; this is a bug"
    return str(row[0])


async def find_tenant(connection: Connection, name: TenantName) -> Tenant | None:
    """Reads the tenant's row."""
    cursor = await connection.execute(
        "SELECT id, text_search_config FROM tenant WHERE name = %s::text", [name]
    )
    row = await cursor.fetchone()
    return None if row is None else Tenant(row[0], name, row[1])


async def find_or_make_tenant(
    connection: Connection, name: TenantName, text_search_config: str
) -> Tenant:
    """Reads the tenant's row, and makes it if this is its first write.

    Raises:
        TextSearchConfigConflictError: The tenant has another configuration.
        InvalidRequestError: The configuration does not exist.
    """
    tenant = await find_tenant(connection, name)
    if tenant is None:
        await _make_tenant(connection, name, text_search_config or DEFAULT_TEXT_SEARCH_CONFIG)
        tenant = await find_tenant(connection, name)
        assert tenant is not None, "the tenant was just made under its lock; this is a bug"
    if text_search_config not in ("", tenant.text_search_config):
        raise TextSearchConfigConflictError(name, tenant.text_search_config, text_search_config)
    return tenant


async def _make_tenant(connection: Connection, name: TenantName, text_search_config: str) -> None:
    cursor = await connection.execute(
        "SELECT FROM pg_ts_config WHERE cfgname = %s::text AND pg_ts_config_is_visible(oid)",
        [text_search_config],
    )
    if cursor.rowcount == 0:
        raise InvalidRequestError(
            [Violation("text_search_config", f"PostgreSQL has no {text_search_config!r}")]
        )
    await connection.execute(
        "INSERT INTO tenant (name, text_search_config) VALUES (%s, %s) ON CONFLICT DO NOTHING",
        [name, text_search_config],
    )
