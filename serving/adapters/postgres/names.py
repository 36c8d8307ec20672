"""The names of a tenant's entities, kept in memory and brought up to date at each use.

Only the names added since the last look are read, by the difference of two snapshots as with
the change log; after an erasure all of them. To read 7,700 names takes 7 ms, and who stores
a single segment needs them all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from serving.adapters.postgres.pool import Connection, Database
from serving.domain.consistency import NOTHING_SEEN
from serving.domain.errors import TriviumError
from serving.domain.name_index import NameIndex
from serving.domain.records import TenantName

MOST_NAMES = 500_000
"""Over all tenants; beyond it those that were not used for longest are read anew."""

_Version: TypeAlias = tuple[int, int]
"""The tenant's row, and how often names were erased from it: another one makes all names void."""

_Lexemes: TypeAlias = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class NamesAndWords:
    """What it takes to find names in words.

    `lexemes` has each of the words as the tenant's texts are searched for it; None for a stop word.
    """

    tenant_id: int
    index: NameIndex
    lexemes: Mapping[str, str | None]


@dataclass(slots=True)
class _Entry:
    version: _Version
    seen: str = str(NOTHING_SEEN)
    names: dict[str, str] = field(default_factory=dict)
    index: NameIndex = field(default_factory=NameIndex)

    def add(self, keys: Sequence[str], names: Sequence[str]) -> None:
        self.names.update(zip(keys, names, strict=True))
        self.index.add(names)


class KnownNames:
    """Names by tenant, as of the moment of asking."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._entries: OrderedDict[TenantName, _Entry] = OrderedDict()
        self._reading: dict[TenantName, asyncio.Task[None]] = {}

    async def close(self) -> None:
        """Ends what runs in the background."""
        tasks = list(self._reading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def read(self, tenant: TenantName) -> None:
        """Reads a tenant's names if that has not been done, in its own time.

        Who waits and is cancelled leaves it to end for those who come after: many names take
        longer to read than one question has.
        """
        if tenant in self._entries:
            return
        if tenant not in self._reading:
            task = asyncio.create_task(self._read(tenant), name="known-names")
            self._reading[tenant] = task
            task.add_done_callback(lambda _: self._reading.pop(tenant, None))
        await asyncio.shield(self._reading[tenant])

    async def _read(self, tenant: TenantName) -> None:
        with contextlib.suppress(TriviumError):  # who asks next is told
            await self.of_tenant(tenant)

    async def of_tenant(self, tenant: TenantName) -> Mapping[str, str]:
        """The names of the tenant's entities, by `name_key`; a view, which may grow later."""
        async with self._database.work() as connection:
            found = await self._of_tenant(connection, tenant)
        return {} if found is None else MappingProxyType(found[0].names)

    async def with_lexemes(
        self, connection: Connection, tenant: TenantName, words: Sequence[str]
    ) -> NamesAndWords | None:
        """The same names as an index, and the words as the tenant's texts are searched for them.

        Both in one statement, since a question waits for them. None if there is no such tenant.
        """
        found = await self._of_tenant(connection, tenant, words)
        if found is None:
            return None
        entry, lexemes = found
        return NamesAndWords(entry.version[0], entry.index, dict(zip(words, lexemes, strict=True)))

    async def _of_tenant(
        self, connection: Connection, tenant: TenantName, words: Sequence[str] = ()
    ) -> tuple[_Entry, _Lexemes] | None:
        found = await self._up_to_date(connection, tenant, self._entries.get(tenant), words)
        if found is None:
            self._entries.pop(tenant, None)
            return None
        self._entries[tenant] = found[0]
        self._entries.move_to_end(tenant)
        self._evict()
        return found

    async def _up_to_date(
        self,
        connection: Connection,
        tenant: TenantName,
        entry: _Entry | None,
        words: Sequence[str],
    ) -> tuple[_Entry, _Lexemes] | None:
        """The entry with what was added since, or a new one; None if there is no such tenant."""
        seen = NOTHING_SEEN if entry is None else entry.seen
        cursor = await connection.execute(
            _ADDED_SINCE, {"tenant": tenant, "seen": str(seen), "words": list(words)}, binary=True
        )
        row = await cursor.fetchone()
        if row is None:
            return None
        tenant_id, names_erased, now, lexemes, keys, names = row
        version = (tenant_id, names_erased)
        if entry is not None and entry.version != version:
            return await self._up_to_date(connection, tenant, None, words)
        entry = entry or _Entry(version)
        entry.add(keys, names)
        entry.seen = now
        return entry, lexemes

    def _evict(self) -> None:
        total = sum(len(entry.names) for entry in self._entries.values())
        while total > MOST_NAMES and len(self._entries) > 1:
            _, evicted = self._entries.popitem(last=False)
            total -= len(evicted.names)


_ADDED_SINCE = """
SELECT tenant.id, tenant.names_erased, pg_current_snapshot()::text,
       ARRAY(SELECT (tsvector_to_array(
                      to_tsvector(quote_ident(text_search_config)::regconfig, asked.word)))[1]
               FROM unnest(%(words)s::text[]) WITH ORDINALITY AS asked (word, place)
              ORDER BY place),
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
