"""The names of a tenant's entities, cached in memory and updated at each use.

An update reads only the names added since the last one, by the difference of two snapshots as in
the change log; after an erasure it reads all of them. Reading 7,700 names takes 7 ms, and storing a
single segment needs them all.

Most questions contain no word that resembles a name and is stored nowhere. They are answered from
memory, without an update, while no write has been announced since the last one.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from serving.adapters.postgres.connection.notifications import Notifications
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import LOG_EPOCH, Connection
from serving.domain.consistency import NOTHING_SEEN, Snapshot
from serving.domain.errors import TriviumError
from serving.domain.items.records import TenantName
from serving.domain.languages import Language, language_of
from serving.domain.questions.name_index import NameIndex

MAX_NAMES = 500_000
"""The capacity over all tenants; the least recently used tenants are evicted."""

UNCHECKED_S = 30.0
"""Maximum age of names without an announced write: a process may end between a write and its
announcement."""

_Version: TypeAlias = tuple[int, int, str]
"""The tenant's id, its count of name erasures, and the epoch of the log; a change invalidates all
cached names."""


@dataclass(slots=True)
class TenantNames:
    """A tenant's names by `name_key` and as an index, and its language."""

    version: _Version
    language: Language
    seen: Snapshot = NOTHING_SEEN
    names: dict[str, str] = field(default_factory=dict)
    index: NameIndex = field(default_factory=NameIndex)
    heard: int = -1
    """The last change that was announced before the last update."""
    updated_at_s: float = -math.inf

    @property
    def tenant_id(self) -> int:
        return self.version[0]

    def add(self, keys: Sequence[str], names: Sequence[str]) -> None:
        self.names.update(zip(keys, names, strict=True))
        self.index.add(names)


class KnownNames:
    """The cache of names by tenant."""

    def __init__(
        self,
        database: Database,
        notifications: Notifications,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._notifications = notifications
        self._clock = clock
        self._entries: OrderedDict[TenantName, TenantNames] = OrderedDict()
        self._reading: dict[TenantName, asyncio.Task[None]] = {}

    async def close(self) -> None:
        """Cancels background tasks."""
        tasks = list(self._reading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def read(self, tenant: TenantName) -> None:
        """Loads a tenant's names if they are not cached.

        The load continues when the caller is cancelled: many names may take longer than one
        question's deadline.
        """
        if tenant in self._entries:
            return
        if tenant not in self._reading:
            task = asyncio.create_task(self._read(tenant), name="known-names")
            self._reading[tenant] = task
            task.add_done_callback(lambda _: self._reading.pop(tenant, None))
        await asyncio.shield(self._reading[tenant])

    async def _read(self, tenant: TenantName) -> None:
        with contextlib.suppress(TriviumError):  # raised again by the next call
            await self.of_tenant(tenant)

    async def of_tenant(self, tenant: TenantName) -> Mapping[str, str]:
        """The names of the tenant's entities, by `name_key`; a view, which may grow later."""
        async with self._database.work() as connection:
            found = await self.updated(connection, tenant)
        return {} if found is None else MappingProxyType(found.names)

    def current(self, tenant: TenantName) -> TenantNames | None:
        """The cached names; None if there are none, or they may have changed since."""
        entry = self._entries.get(tenant)
        if entry is None or entry.heard < self._notifications.heard(tenant):
            return None
        if self._clock() - entry.updated_at_s > UNCHECKED_S:
            return None
        self._entries.move_to_end(tenant)
        return entry

    async def updated(self, connection: Connection, tenant: TenantName) -> TenantNames | None:
        """The names up to date; None for an unknown tenant."""
        found = await self._up_to_date(connection, tenant, self._entries.get(tenant))
        if found is None:
            self._entries.pop(tenant, None)
            return None
        self._entries[tenant] = found
        self._entries.move_to_end(tenant)
        total = sum(len(entry.names) for entry in self._entries.values())
        while total > MAX_NAMES and len(self._entries) > 1:
            _, evicted = self._entries.popitem(last=False)
            total -= len(evicted.names)
        return found

    async def _up_to_date(
        self, connection: Connection, tenant: TenantName, entry: TenantNames | None
    ) -> TenantNames | None:
        """The entry with the names added since, or a new one; None for an unknown tenant."""
        seen = NOTHING_SEEN if entry is None else entry.seen
        heard = self._notifications.heard()
        found = await connection.fetch_all(_ADDED_SINCE, {"tenant": tenant, "seen": str(seen)})
        if not found:
            return None
        tenant_id, names_erased, epoch, config, now, newest, keys, names = found[0]
        version = (tenant_id, names_erased, epoch)
        if entry is not None and entry.version != version:
            return await self._up_to_date(connection, tenant, None)
        entry = entry or TenantNames(version, language_of(config))
        entry.add(keys, names)
        entry.seen = Snapshot.parse(now).up_to(max(newest, entry.seen.xmax - 1))
        entry.heard, entry.updated_at_s = heard, self._clock()
        return entry


_ADDED_SINCE = f"""
SELECT tenant.id, tenant.names_erased, (SELECT {LOG_EPOCH} FROM meta),
       text_search_config, pg_current_snapshot()::text,
       coalesce(max(added.added_xid), '0')::text::int8,
       coalesce(array_agg(added.name_key) FILTER (WHERE added.name_key IS NOT NULL), '{{}}'),
       coalesce(array_agg(added.name) FILTER (WHERE added.name_key IS NOT NULL), '{{}}')
  FROM tenant
  LEFT JOIN entity AS added
         ON added.tenant_id = tenant.id -- tenant filter
        AND added.added_xid >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
        AND NOT pg_visible_in_snapshot(added.added_xid, %(seen)s::pg_snapshot)
 WHERE tenant.name = %(tenant)s::text -- tenant filter
 GROUP BY tenant.id
"""
