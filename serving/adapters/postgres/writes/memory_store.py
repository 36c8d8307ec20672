"""The store of segments and facts: writes, erasures, and reads by name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo

from serving.adapters.postgres.audit_log import log_change
from serving.adapters.postgres.connection.migrations import LATEST_VERSION
from serving.adapters.postgres.connection.notifications import Channel, Notifications
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.tables.filters import TENANT_ID
from serving.adapters.postgres.tables.rows import COLUMNS, TO_ITEM
from serving.adapters.postgres.tables.tenants import find_tenant
from serving.adapters.postgres.words.known_names import UNCHECKED_S, KnownNames
from serving.adapters.postgres.writes.batch import (
    ExclusiveLockRequiredError,
    ExpiredItemsError,
    write_batch,
)
from serving.adapters.postgres.writes.erasure import (
    DERIVED_TABLES,
    count_selected,
    erase_selected,
    find_expired,
)
from serving.domain.budget import Deadline
from serving.domain.errors import TriviumError
from serving.domain.items.records import Item, ItemId, ItemKind, TenantName
from serving.domain.questions.time_zones import parse_time_zone
from serving.ports.memory_store import Batch, EraseReceipt, Selected, Selector, WriteReceipt

MAX_TENANTS_KNOWN = 100_000
"""The tenants whose zones are remembered; beyond it, all are forgotten."""

PROBE_S = 2.0
"""The time limit of `ready`."""


class PostgresMemoryStore:
    """`MemoryStore` in PostgreSQL."""

    def __init__(self, database: Database, notifications: Notifications, names: KnownNames) -> None:
        self._database = database
        self._notifications = notifications
        self._names = names
        self._time_zones: dict[TenantName, tuple[tzinfo, float]] = {}

    async def write(self, batch: Batch) -> WriteReceipt:
        """Stores the items in one transaction, then notifies the projections."""
        try:
            receipt = await self._write(batch)
        except ExpiredItemsError as error:
            await self.erase(batch.tenant, Selector(items=error.items, expired_by=batch.at))
            receipt = await self._write(replace(batch, at=None))
        if receipt.changes:
            self._notifications.announce(Channel.CHANGES, batch.tenant)
        return receipt

    async def _write(self, batch: Batch) -> WriteReceipt:
        # Nobody else writes between the look at a version and the change.
        exclusive = bool(batch.versions)
        try:
            return await self._write_locked(batch, exclusive=exclusive)
        except ExclusiveLockRequiredError:
            return await self._write_locked(batch, exclusive=True)

    async def _write_locked(self, batch: Batch, *, exclusive: bool) -> WriteReceipt:
        async with self._database.transaction() as connection:
            receipt = await write_batch(connection, batch, exclusive=exclusive)
            if receipt.changes:
                count = receipt.outcomes.count
                created, updated = count("created"), count("updated")
                await log_change(connection, batch.tenant, created=created, updated=updated)
        return receipt

    async def erase(self, tenant: TenantName, selector: Selector) -> EraseReceipt:
        """Erases in one transaction, then notifies the projections."""
        async with self._database.transaction() as connection:
            receipt = await erase_selected(connection, tenant, selector)
            if receipt.items or selector.expired_by is None:  # another replica may have swept
                await log_change(connection, tenant, erased=len(receipt.items))
        self._notifications.announce(Channel.CHANGES, tenant)
        return receipt

    async def expired(self, by: datetime, limit: int) -> list[tuple[TenantName, ItemId]]:
        async with self._database.work() as connection:
            return await find_expired(connection, by, limit)

    async def count_selected(self, tenant: TenantName, selector: Selector) -> Selected:
        async with self._database.snapshot() as connection:
            return await count_selected(connection, tenant, selector)

    async def load(
        self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline
    ) -> dict[ItemId, Item]:
        """Reads the rows of the items that exist, in one round trip per kind of item."""
        loaded: list[Item] = []
        async with self._database.search(deadline, tenant) as connection:
            for kind in ItemKind:
                ids = _ids(items, kind)
                if ids:
                    values = {"tenant": tenant, "ids": ids}
                    rows = await connection.fetch_all(_LOAD[kind], values, prepare=True)
                    loaded += [TO_ITEM[kind](row) for row in rows]
        return {item.item: item for item in loaded}

    async def has_facts(self, tenant: TenantName, deadline: Deadline) -> bool:
        async with self._database.search(deadline, tenant) as connection:
            cursor = await connection.execute(_HAS_FACTS, {"tenant": tenant}, prepare=True)
            row = await cursor.fetchone()
        return row is not None and bool(row[0])

    def known_time_zone(self, tenant: TenantName) -> tzinfo | None:
        zone, read_at = self._time_zones.get(tenant, (None, 0.0))
        return zone if time.monotonic() - read_at <= UNCHECKED_S else None

    async def read_time_zone(self, tenant: TenantName, deadline: Deadline) -> tzinfo:
        asked_at = time.monotonic()
        async with self._database.search(deadline, tenant) as connection:
            found = await find_tenant(connection, tenant)
        if found is None:
            return UTC  # anybody can ask about tenants that do not exist
        zone = parse_time_zone(found.time_zone)
        if len(self._time_zones) >= MAX_TENANTS_KNOWN:
            self._time_zones.clear()
        self._time_zones[tenant] = (zone, asked_at)
        return zone

    async def known_names(self, tenant: TenantName) -> Mapping[str, str]:
        return await self._names.of_tenant(tenant)

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        async with self._database.work() as connection:
            (count,) = await connection.fetch_row(
                f"""
                SELECT (SELECT count(*) FROM segment
                         WHERE tenant_id = {TENANT_ID} -- tenant filter
                           AND id = ANY (%(segments)s::text[]))
                     + (SELECT count(*) FROM fact
                         WHERE tenant_id = {TENANT_ID} -- tenant filter
                           AND id = ANY (%(facts)s::text[]))
                """,
                {
                    "tenant": tenant,
                    "segments": _ids(items, ItemKind.SEGMENT),
                    "facts": _ids(items, ItemKind.FACT),
                },
            )
        return int(count)

    async def count_derived(self, keys: Sequence[int]) -> Mapping[str, int]:
        async with self._database.work() as connection:
            counts = {}
            for store, table in DERIVED_TABLES.items():
                (counts[store],) = await connection.fetch_row(
                    f"SELECT count(*) FROM {table} WHERE key = ANY (%s::int8[])", [list(keys)]
                )
        return counts

    async def ready(self) -> bool:
        """Whether PostgreSQL answers, with this program's schema. Never raises."""
        try:
            async with (
                asyncio.timeout(PROBE_S),
                self._database.search(Deadline.after(PROBE_S)) as connection,
            ):
                await self._database.recovered()
                (schema,) = await connection.fetch_row("SELECT schema_version FROM meta")
        except (TriviumError, TimeoutError):
            return False
        return bool(schema >= LATEST_VERSION)


def _ids(items: Sequence[ItemId], kind: ItemKind) -> list[str]:
    return [item.id for item in items if item.kind is kind]


_HAS_FACTS = """
SELECT (SELECT fact.id FROM fact
         WHERE fact.tenant_id = tenant.id -- tenant filter
         ORDER BY fact.tenant_id, fact.id LIMIT 1) IS NOT NULL
  FROM tenant WHERE tenant.name = %(tenant)s::text -- tenant filter
"""
"""No row for an unknown tenant. In the order of the index: EXISTS might read the whole table, where
a few tenants have all rows."""

_LOAD = {
    kind: f"""
    SELECT {COLUMNS[kind]} FROM {kind}
     WHERE tenant_id = {TENANT_ID} -- tenant filter
       AND id = ANY (%(ids)s::text[])
    """
    for kind in ItemKind
}
