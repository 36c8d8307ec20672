"""Tenants: the lock of a write, and the tenant's row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from serving.adapters.postgres.connection.statements import LOG_EPOCH, Connection
from serving.domain.errors import InvalidRequestError, TextSearchConfigConflictError, Violation
from serving.domain.items.records import TenantName
from serving.domain.languages import LANGUAGE_NAMES

DEFAULT_TEXT_SEARCH_CONFIG = "english"

_LOCK_CLASS = 0x54524956
"""The first key of the tenants' advisory locks: "TRIV"."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A row of `tenant`."""

    id: int
    name: TenantName
    text_search_config: str
    time_zone: str
    """The `str` of a zone; empty is UTC."""


async def lock_tenant(connection: Connection, name: TenantName, *, exclusive: bool) -> str:
    """Locks the tenant until the transaction ends, and returns the log's epoch.

    Ordinary writes share the lock. Erasures and writes that change what is sensitive take it
    exclusively, so that no fact is written on a segment that becomes sensitive concurrently, and
    no name or tenant reappears while it is erased.
    """
    shared = "" if exclusive else "_shared"
    epoch, _ = await connection.fetch_row(
        f"SELECT {LOG_EPOCH}, pg_advisory_xact_lock{shared}(%s::int4, hashtext(%s)) FROM meta",
        [_LOCK_CLASS, name],
    )
    return str(epoch)


async def find_tenant(connection: Connection, name: TenantName) -> Tenant | None:
    """Reads the tenant's row."""
    rows = await connection.fetch_all(
        "SELECT id, name, text_search_config, time_zone"
        "  FROM tenant WHERE name = %s::text",  # tenant filter
        [name],
        prepare=True,
    )
    return Tenant(*rows[0]) if rows else None


async def find_or_make_tenant(
    connection: Connection,
    name: TenantName,
    text_search_config: str = "",
    time_zone: tzinfo | None = None,
) -> Tenant:
    """Reads the tenant's row, creating it at the tenant's first write.

    Raises:
        TextSearchConfigConflictError: The tenant has another configuration.
        InvalidRequestError: There is no such language.
    """
    tenant = await find_tenant(connection, name)
    if tenant is None:
        config = text_search_config or DEFAULT_TEXT_SEARCH_CONFIG
        await _make_tenant(connection, name, config, time_zone)
        tenant = await find_tenant(connection, name)
        assert tenant is not None, "the tenant was just created under its lock; this is a bug"
    if text_search_config not in ("", tenant.text_search_config):
        raise TextSearchConfigConflictError(name, tenant.text_search_config, text_search_config)
    return tenant


async def _make_tenant(
    connection: Connection, name: TenantName, text_search_config: str, time_zone: tzinfo | None
) -> None:
    if text_search_config not in LANGUAGE_NAMES:
        known = ", ".join(sorted(LANGUAGE_NAMES))
        raise InvalidRequestError(
            [Violation("text_search_config", f"must be one of {known}, is {text_search_config!r}")]
        )
    await connection.execute(
        "INSERT INTO tenant (name, text_search_config, time_zone) VALUES (%s, %s, %s)"
        " ON CONFLICT DO NOTHING",
        [name, text_search_config, str(time_zone or "")],
    )


async def set_time_zone(connection: Connection, name: TenantName, time_zone: tzinfo) -> None:
    """Sets where the turns of a tenant are said, if there is one."""
    await connection.execute(
        "UPDATE tenant SET time_zone = %s WHERE name = %s::text",  # tenant filter
        [str(time_zone), name],
    )
