"""The truth: writing, erasing, and reading by name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from serving.adapters.postgres.erasing import erase_selected
from serving.adapters.postgres.migrations import latest_version
from serving.adapters.postgres.names import KnownNames
from serving.adapters.postgres.notifications import Channel, Notifications
from serving.adapters.postgres.pool import Connection, Database
from serving.adapters.postgres.rows import FACT_COLUMNS, SEGMENT_COLUMNS, to_fact, to_segment
from serving.adapters.postgres.tenancy import TENANT_ID
from serving.adapters.postgres.writing import Batch, ReachesOthersError, write_batch
from serving.domain.budget import Deadline
from serving.domain.errors import TriviumError
from serving.domain.records import Item, ItemId, ItemKind, TenantName
from serving.ports import EraseReceipt, Selector, WriteReceipt

PROBE_S = 2.0
"""How long `ready` waits for an answer."""


class PostgresMemoryStore:
    """The port `MemoryStore`."""

    def __init__(self, database: Database, notifications: Notifications, names: KnownNames) -> None:
        self._database = database
        self._notifications = notifications
        self._names = names

    async def write(
        self,
        tenant: TenantName,
        items: Sequence[Item],
        text_search_config: str = "",
        extracted: frozenset[ItemId] = frozenset(),
        undated: frozenset[ItemId] = frozenset(),
    ) -> WriteReceipt:
        """Stores the items in one transaction, and tells the projections."""
        receipt = await self._write(
            Batch(
                tenant=tenant,
                items=items,
                text_search_config=text_search_config,
                extracted=extracted,
                undated=undated,
            )
        )
        if any(outcome != "unchanged" for outcome in receipt.outcomes):
            self._notifications.announce(Channel.CHANGES)
        return receipt

    async def _write(self, batch: Batch) -> WriteReceipt:
        try:
            async with self._database.transaction() as connection:
                return await write_batch(connection, batch, exclusive=False)
        except ReachesOthersError:
            async with self._database.transaction() as connection:
                return await write_batch(connection, batch, exclusive=True)

    async def erase(self, tenant: TenantName, selector: Selector) -> EraseReceipt:
        """Erases in one transaction, and tells the projections."""
        async with self._database.transaction() as connection:
            receipt = await erase_selected(connection, tenant, selector)
        self._notifications.announce(Channel.CHANGES)
        return receipt

    async def load(
        self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline
    ) -> dict[ItemId, Item]:
        """Reads the rows of the items that exist, in a round trip for each kind of item."""
        segments, facts = _ids(items, ItemKind.SEGMENT), _ids(items, ItemKind.FACT)
        loaded: list[Item] = []
        async with self._database.search(deadline) as connection:
            if segments:
                rows = await _rows(connection, _LOAD_SEGMENTS, tenant, segments)
                loaded += [to_segment(row) for row in rows]
            if facts:
                rows = await _rows(connection, _LOAD_FACTS, tenant, facts)
                loaded += [to_fact(row) for row in rows]
        return {item.item: item for item in loaded}

    async def known_names(self, tenant: TenantName) -> Mapping[str, str]:
        """The names of the tenant's entities, by `name_key`."""
        return await self._names.of_tenant(tenant)

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items it still holds."""
        async with self._database.work() as connection:
            cursor = await connection.execute(
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
            row = await cursor.fetchone()
        return 0 if row is None else int(row[0])

    async def ready(self) -> bool:
        """Whether PostgreSQL answers, and has the schema that this program works with."""
        try:
            async with (
                asyncio.timeout(PROBE_S),
                self._database.search(Deadline.after(PROBE_S)) as connection,
            ):
                cursor = await connection.execute("SELECT schema_version FROM meta")
                row = await cursor.fetchone()
        except (TriviumError, TimeoutError):
            return False
        return row is not None and bool(row[0] >= latest_version())


async def _rows(
    connection: Connection, statement: LiteralString, tenant: TenantName, ids: list[str]
) -> list[tuple[Any, ...]]:
    cursor = await connection.execute(
        statement, {"tenant": tenant, "ids": ids}, prepare=True, binary=True
    )
    return await cursor.fetchall()


def _ids(items: Sequence[ItemId], kind: ItemKind) -> list[str]:
    return [item.id for item in items if item.kind is kind]


_LOAD_SEGMENTS = f"""
SELECT {SEGMENT_COLUMNS} FROM segment
 WHERE tenant_id = {TENANT_ID} -- tenant filter
   AND id = ANY (%(ids)s::text[])
"""

_LOAD_FACTS = f"""
SELECT {FACT_COLUMNS} FROM fact
 WHERE tenant_id = {TENANT_ID} -- tenant filter
   AND id = ANY (%(ids)s::text[])
"""
