"""PostgreSQL as the source of tenants in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from serving.adapters.postgres.connection.notifications import Channel, Notifications, Waiter
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.log.current_items import FROM_NAMES, JOIN_ITEM, Name, read_named
from serving.adapters.postgres.log.entries import WRITTEN
from serving.adapters.postgres.log.positions import changes_beyond, read_position
from serving.adapters.postgres.tables.filters import IS_HIDDEN
from serving.adapters.postgres.tables.rows import COLUMNS, TO_ITEM
from serving.domain.items.records import ItemKind, TenantName
from serving.ports.resident_feed import (
    LogPosition,
    ResidentDelta,
    ResidentRow,
    TenantChanges,
    TenantContent,
    TenantTooLargeError,
)


class PostgresResidentFeed:
    """`ResidentFeed` in PostgreSQL."""

    def __init__(self, database: Database, notifications: Notifications) -> None:
        self._database = database
        self._notifications = notifications
        self._changes = Waiter(notifications, Channel.CHANGES)

    def heard(self, tenant: TenantName | None = None) -> int:
        return self._notifications.heard(tenant)

    async def position(self) -> LogPosition:
        async with self._database.work() as connection:
            position, _ = await read_position(connection)
        return position

    async def content(self, tenant: TenantName, most: int) -> TenantContent | None:
        async with self._database.snapshot() as connection:
            found = await connection.fetch_all(_TENANT, {"tenant": tenant, "most": most})
            if not found:
                return None
            config, has_hidden, segments = found[0]
            if segments > most:
                raise TenantTooLargeError
            found = [
                (kind, row)
                for kind in ItemKind
                for row in await connection.fetch_all(_ALL[kind], {"tenant": tenant})
            ]
        rows = [row for _, row in _rows(found)]
        return TenantContent(rows, config, has_hidden)

    async def changes_since(
        self, position: LogPosition, tenants: Collection[TenantName]
    ) -> ResidentDelta:
        async with self._database.snapshot() as connection:
            reached, changed = await changes_beyond(connection, position, WRITTEN)
            names = [name for name in changed if name[0] in tenants]
            return ResidentDelta(reached, await _changes_of(connection, names))

    async def wait(self, timeout_s: float) -> None:
        await self._changes.wait(timeout_s)


async def _changes_of(
    connection: Connection, names: Sequence[Name]
) -> dict[TenantName, TenantChanges]:
    if not names:
        return {}
    rows: defaultdict[TenantName, list[ResidentRow]] = defaultdict(list)
    for tenant, row in _rows(await read_named(connection, _CURRENT, names)):
        rows[tenant].append(row)
    present = {(tenant, row.item.item) for tenant, of in rows.items() for row in of}
    tenants = {tenant for tenant, _ in names}
    found = await connection.fetch_all(_TENANTS, {"tenants": list(tenants)})
    states = {tenant: state for tenant, *state in found}
    return {
        tenant: TenantChanges(
            rows[tenant],
            [item for of, item in names if of == tenant and (of, item) not in present],
            *states.get(tenant, ()),
        )
        for tenant in tenants
    }


def _rows(
    found: Iterable[tuple[ItemKind, Sequence[Any]]],
) -> Iterator[tuple[TenantName, ResidentRow]]:
    """The rows; they share speakers, names and times, so equal ones are one object."""
    known: dict[Any, Any] = {}

    def shared(value: Any) -> Any:
        if isinstance(value, list):
            return [shared(each) for each in value]
        return known.setdefault(value, value) if isinstance(value, str | datetime) else value

    for kind, (tenant, tsvector, length, *columns) in found:
        yield TenantName(tenant), ResidentRow(TO_ITEM[kind](shared(columns)), tsvector, length)


_SHOWN = {
    ItemKind.SEGMENT: f"tenant.name, segment.tsv::text, segment.dl, {COLUMNS[ItemKind.SEGMENT]}",
    ItemKind.FACT: f"tenant.name, '', 0, {COLUMNS[ItemKind.FACT]}",
}

_CURRENT = {
    kind: f"""
    SELECT {_SHOWN[kind]} {FROM_NAMES} {JOIN_ITEM[kind]}
     WHERE NOT {IS_HIDDEN[kind]} ORDER BY {kind}.key
    """
    for kind in ItemKind
}

_ALL = {
    kind: f"""
    SELECT {_SHOWN[kind]}
      FROM {kind} JOIN tenant ON tenant.id = {kind}.tenant_id
     WHERE tenant.name = %(tenant)s::text -- tenant filter
       AND NOT {IS_HIDDEN[kind]} ORDER BY {kind}.key
    """
    for kind in ItemKind
}

_HIDES = """
(EXISTS (SELECT FROM segment
          WHERE segment.tenant_id = tenant.id -- tenant filter
            AND segment.sensitive)
 OR EXISTS (SELECT FROM fact
             WHERE fact.tenant_id = tenant.id -- tenant filter
               AND fact.sensitive))
"""
"""Whether a tenant has a hidden row: each rests on one that is sensitive, or is one."""

_TENANTS = f"""
SELECT tenant.name, tenant.text_search_config, {_HIDES}
  FROM tenant WHERE tenant.name = ANY (%(tenants)s::text[])
"""

_TENANT = f"""
SELECT tenant.text_search_config, {_HIDES},
       (SELECT count(*) FROM (SELECT FROM segment
                               WHERE segment.tenant_id = tenant.id -- tenant filter
                               LIMIT %(most)s::int8 + 1) AS few)
  FROM tenant WHERE tenant.name = %(tenant)s::text -- tenant filter
"""
"""The language of a tenant, whether it has hidden rows, and how many segments, up to a limit."""
