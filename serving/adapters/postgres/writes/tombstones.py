"""Tombstones: hashes of erased items, which outlast the database if they are exported.

A backup from before an erasure holds what was erased. After its restore, `erase_again` erases the
items whose hash is in an exported list. An item that was written again after its erasure stays: its
last change is later than the tombstone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.writes.erasure import erase_selected, tombstone_hash
from serving.domain.items.records import ItemId, ItemKind, TenantName
from serving.ports.memory_store import Selector

ERASED_AT_ONCE = 1000
"""Items of one transaction."""


@dataclass(frozen=True, slots=True)
class Tombstones:
    """Hashes of erased items under a key, with the time of each erasure."""

    key: bytes
    entries: Sequence[tuple[bytes, datetime]]


async def read_tombstones(database: Database) -> Tombstones:
    """Reads all tombstones of the database."""
    async with database.snapshot() as connection:
        (key,) = await connection.fetch_row("SELECT tombstone_key FROM meta")
        rows = await connection.fetch_all("SELECT hash, erased_at FROM tombstone ORDER BY hash")
        return Tombstones(key, rows)


async def erase_again(database: Database, tombstones: Tombstones) -> int:
    """Erases the stored items that have a tombstone and were not changed since.

    Each batch is a transaction of its own. If the process ends between two, calling it again erases
    the rest. Returns the number of items erased, facts without other evidence included.
    """
    async with database.transaction() as connection:
        found = await _find(connection, tombstones)
    erased = 0
    for tenant, items in found.items():
        for start in range(0, len(items), ERASED_AT_ONCE):
            batch = Selector(items=tuple(items[start : start + ERASED_AT_ONCE]))
            async with database.transaction() as connection:
                receipt = await erase_selected(connection, tenant, batch)
            erased += len(receipt.items)
    async with database.transaction() as connection:
        await _merge(connection, tombstones)
    return erased


async def _find(connection: Connection, tombstones: Tombstones) -> dict[TenantName, list[ItemId]]:
    found: defaultdict[TenantName, list[ItemId]] = defaultdict(list)
    for tenant, kind, id_ in await connection.fetch_all(_FIND, _values(tombstones)):
        found[TenantName(tenant)].append(ItemId(ItemKind(kind), id_))
    return found


async def _merge(connection: Connection, tombstones: Tombstones) -> None:
    """Stores tombstones made under this database's key, for the next export.

    A database without tombstones takes the key of the others. Those of another key cannot be
    stored: keep their file.
    """
    await connection.execute(
        "UPDATE meta SET tombstone_key = %s WHERE NOT EXISTS (SELECT FROM tombstone)",
        [tombstones.key],
    )
    await connection.execute(
        """
        INSERT INTO tombstone (hash, erased_at)
        SELECT given.*
          FROM meta,
               unnest(%(hashes)s::bytea[], %(times)s::timestamptz[]) AS given (hash, erased_at)
         WHERE meta.tombstone_key = %(key)s
            ON CONFLICT (hash) DO UPDATE
           SET erased_at = greatest(tombstone.erased_at, excluded.erased_at)
        """,
        _values(tombstones),
    )


def _values(tombstones: Tombstones) -> dict[str, object]:
    return {
        "key": tombstones.key,
        "hashes": [hash_ for hash_, _ in tombstones.entries],
        "times": [erased_at for _, erased_at in tombstones.entries],
    }


_FIND = " UNION ALL ".join(
    f"""
    SELECT tenant.name, '{kind}', {kind}.id
      FROM {kind}
      JOIN tenant ON tenant.id = {kind}.tenant_id
      JOIN unnest(%(hashes)s::bytea[], %(times)s::timestamptz[]) AS erased (hash, erased_at)
        ON erased.hash
           = {tombstone_hash("%(key)s::bytea", "tenant.name", f"'{kind}'", f"{kind}.id")}
     WHERE {kind}.updated_at <= erased.erased_at
    """
    for kind in ItemKind
)
