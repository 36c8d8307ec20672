"""The names of a tenant's entities, kept in memory and brought up to date at each use.

Only the names added since the last look are read, by the difference of two snapshots as with
the change log; after an erasure all of them. To read 7,700 names takes 7 ms, and who stores
a single segment needs them all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from serving.adapters.postgres.pool import Connection, Database
from serving.domain.consistency import NOTHING_SEEN
from serving.domain.records import TenantName

MOST_NAMES = 500_000
"""Over all tenants; beyond it those that were not used for longest are read anew."""

_Version: TypeAlias = tuple[int, int]
"""The tenant's row, and how often names were erased from it: another one makes all names void."""


@dataclass(slots=True)
class _Entry:
    version: _Version
    seen: str = str(NOTHING_SEEN)
    names: dict[str, str] = field(default_factory=dict)


class KnownNames:
    """Names by tenant, as of the moment of asking."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._entries: OrderedDict[TenantName, _Entry] = OrderedDict()

    async def of_tenant(self, tenant: TenantName) -> Mapping[str, str]:
        """The names of the tenant's entities, by `name_key`; a view, which may grow later."""
        async with self._database.work() as connection:
            entry = await self._up_to_date(connection, tenant, self._entries.get(tenant))
        if entry is None:
            self._entries.pop(tenant, None)
            return {}
        self._entries[tenant] = entry
        self._entries.move_to_end(tenant)
        self._evict()
        return MappingProxyType(entry.names)

    async def _up_to_date(
        self, connection: Connection, tenant: TenantName, entry: _Entry | None
    ) -> _Entry | None:
        """The entry with what was added since, or a new one; None if there is no such tenant."""
        seen = NOTHING_SEEN if entry is None else entry.seen
        cursor = await connection.execute(
            _ADDED_SINCE, {"tenant": tenant, "seen": str(seen)}, binary=True
        )
        row = await cursor.fetchone()
        if row is None:
            return None
        tenant_id, names_erased, now, keys, names = row
        version = (tenant_id, names_erased)
        if entry is not None and entry.version != version:
            return await self._up_to_date(connection, tenant, None)
        entry = entry or _Entry(version)
        entry.names.update(zip(keys, names, strict=True))
        entry.seen = now
        return entry

    def _evict(self) -> None:
        total = sum(len(entry.names) for entry in self._entries.values())
        while total > MOST_NAMES and len(self._entries) > 1:
            _, evicted = self._entries.popitem(last=False)
            total -= len(evicted.names)


_ADDED_SINCE = """
SELECT tenant.id, tenant.names_erased, pg_current_snapshot()::text,
       coalesce(array_agg(added.name_key) FILTER (WHERE added.name_key IS NOT NULL), '{}'),
       coalesce(array_agg(added.name) FILTER (WHERE added.name_key IS NOT NULL), '{}')
  FROM tenant
  LEFT JOIN entity AS added
         ON added.tenant_id = tenant.id -- tenant filter
        AND added.added_xid >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
        AND NOT pg_visible_in_snapshot(added.added_xid, %(seen)s::pg_snapshot)
 WHERE tenant.name = %(tenant)s::text -- tenant filter
 GROUP BY tenant.id
"""
