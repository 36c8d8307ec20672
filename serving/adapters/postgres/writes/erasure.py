"""Erasure of rows, and of all data derived from them, in one transaction.

Only a row in the change log remains, with the item's name, until every projection has seen it
(log/compaction.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import numpy as np

from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.log.embeddings import STORED_TYPE
from serving.adapters.postgres.log.entries import log_erased, log_written, note_erasure
from serving.adapters.postgres.tables.filters import (
    EXPIRES_AT,
    IS_HIDDEN,
    Conditions,
    conditions_of,
)
from serving.adapters.postgres.tables.rows import COLUMNS, TO_ITEM
from serving.adapters.postgres.tables.tenants import Tenant, find_tenant, lock_tenant
from serving.adapters.postgres.writes import names
from serving.adapters.postgres.writes.closings import find_closed_by, refresh_closings
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import Item, ItemId, ItemKind, TenantName, fact_id, segment_id
from serving.domain.items.text import name_key
from serving.domain.soundness import sound_rows
from serving.ports.embedding import Vector
from serving.ports.memory_store import SAMPLED, ErasedItem, EraseReceipt, Selected, Selector

DERIVED_TABLES = {
    "embeddings": "embedding",
    "access_counts": "access_count",
    "dead_letters": "dead_letter",
}
"""The tables with rows of an item by its key, by the name in a receipt."""

NO_HASH = b""
"""The content hash of a row that differs from what the client sent."""


_FACT_GOES = """
(id = ANY (%(named)s::text[])
 OR evidence && %(gone)s::text[] AND evidence <@ %(gone)s::text[])
"""
"""Whether a fact is named, or all of its evidence goes."""


class _Row(NamedTuple):
    """A row to erase."""

    item: ItemId
    key: int
    name_keys: list[str]


async def erase_selected(
    connection: Connection, name: TenantName, selector: Selector
) -> EraseReceipt:
    """Erases the selected items; `connection` is in a transaction."""
    epoch = await lock_tenant(connection, name, exclusive=True)
    tenant = await find_tenant(connection, name)
    if tenant is None:
        return await _nothing_erased(connection, epoch)
    if selector.expired_by is not None:
        # Again, now that nobody else writes: what is to live longer meanwhile stays.
        selector = await _of_expired(connection, tenant, selector, selector.expired_by)
    segments = await _lock_segments(connection, tenant, selector)
    gone = sorted({row.item.id for row in segments} | _named(selector, ItemKind.SEGMENT))
    facts = await _lock_facts(connection, tenant, selector, gone)
    erased = [*segments, *facts]
    keys, items = [row.key for row in erased], [row.item for row in erased]
    sample = await _sample(connection, erased)
    await _delete(connection, keys)
    # No fact is left otherwise.
    resting = set() if selector.everything else await _withdraw_evidence(connection, tenant, gone)
    reopened = await find_closed_by(connection, tenant, [row.item.id for row in facts])
    changed = resting | await refresh_closings(connection, tenant, reopened)
    removed = {}
    for store, table in DERIVED_TABLES.items():
        cursor = await connection.execute(
            f"DELETE FROM {table} WHERE key = ANY (%s::int8[])", [keys]
        )
        removed[store] = cursor.rowcount
    await log_written(connection, tenant, dict.fromkeys(changed, ItemKind.FACT))
    await log_erased(connection, tenant, keys, items)
    await _bury(connection, tenant, items)
    await names.store_names_of_facts(connection, tenant, resting)
    name_keys = {key for row in erased for key in row.name_keys}
    gone_names = await names.delete_unused_names(connection, tenant, name_keys)
    if selector.everything:
        await connection.execute("DELETE FROM entity WHERE tenant_id = %s::int4", [tenant.id])
        await connection.execute("DELETE FROM tenant WHERE id = %s::int4", [tenant.id])
    if not (erased or changed):
        return await _nothing_erased(connection, epoch)
    token = ConsistencyToken.of(epoch, [await note_erasure(connection)])
    return EraseReceipt(items, token, keys, removed, gone_names, sample)


async def find_expired(
    connection: Connection, by: datetime, limit: int
) -> list[tuple[TenantName, ItemId]]:
    """The items of all tenants whose own time has come, the earliest first."""
    rows = await connection.fetch_all(_EXPIRED, {"by": by, "limit": limit})
    return [(TenantName(tenant), ItemId(ItemKind(kind), id_)) for tenant, kind, id_ in rows]


async def _of_expired(
    connection: Connection, tenant: Tenant, selector: Selector, by: datetime
) -> Selector:
    """The selector of those of the items that have expired."""
    expired: list[ItemId] = []
    for kind in ItemKind:
        rows = await connection.fetch_all(
            f"""
            SELECT id FROM {kind}
             WHERE tenant_id = %s::int4 -- tenant filter
               AND id = ANY (%s::text[]) AND {EXPIRES_AT[kind]} <= %s::timestamptz
            """,
            [tenant.id, sorted(_named(selector, kind)), by],
        )
        expired += [ItemId(kind, id_) for (id_,) in rows]
    return replace(selector, items=tuple(expired))


async def count_selected(connection: Connection, name: TenantName, selector: Selector) -> Selected:
    """Counts what `erase_selected` would erase; `connection` reads one snapshot."""
    tenant = await find_tenant(connection, name)
    if tenant is None:
        return Selected({}, 0)
    conditions = _segment_conditions(selector)
    rows = await connection.fetch_all(
        f"""
        SELECT id, speaker FROM segment
         WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
           {conditions}
        """,
        {"tenant_id": tenant.id, **conditions.values},
    )
    speakers: dict[str, str] = dict(rows)
    (facts,) = await connection.fetch_row(
        f"""
        SELECT count(*) FROM fact
         WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
           AND {"true" if selector.everything else _FACT_GOES}
        """,
        {
            "tenant_id": tenant.id,
            "named": sorted(_named(selector, ItemKind.FACT)),
            "gone": sorted(speakers.keys() | _named(selector, ItemKind.SEGMENT)),
        },
    )
    return Selected(Counter(speakers.values()), facts)


async def _nothing_erased(connection: Connection, epoch: str) -> EraseReceipt:
    """The token is that of the last erasure, since the caller may repeat one that was cut off."""
    (xid,) = await connection.fetch_row("SELECT erased_xid::text::int8 FROM meta")
    return EraseReceipt([], ConsistencyToken.of(epoch, [xid] if xid else []))


def tombstone_hash(key: str, tenant: str, kind: str, id_: str) -> str:
    """An SQL expression for the tombstone of an item; the arguments are expressions.

    The key enters twice, as in HMAC.
    """
    name = f"convert_to({tenant} || E'\\x1f' || {kind} || E'\\x1f' || {id_}, 'UTF8')"
    return f"sha256({key} || sha256({key} || {name}))"


async def _bury(connection: Connection, tenant: Tenant, items: Sequence[ItemId]) -> None:
    """Stores the tombstones of erased items."""
    await connection.execute(
        f"""
        INSERT INTO tombstone (hash)
        SELECT {tombstone_hash("meta.tombstone_key", "%s::text", "kind", "id")}
          FROM meta, unnest(%s::text[], %s::text[]) AS erased (kind, id)
            ON CONFLICT (hash) DO UPDATE SET erased_at = excluded.erased_at
        """,
        [tenant.name, [str(item.kind) for item in items], [item.id for item in items]],
    )


def _named(selector: Selector, kind: ItemKind) -> set[str]:
    return {item.id for item in selector.items or () if item.kind is kind}


async def _lock_segments(connection: Connection, tenant: Tenant, selector: Selector) -> list[_Row]:
    conditions = _segment_conditions(selector)
    rows = await connection.fetch_all(
        f"""
        SELECT id, key, {names.NAME_KEYS[ItemKind.SEGMENT]} FROM segment
         WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
           {conditions}
         ORDER BY id FOR UPDATE
        """,
        {"tenant_id": tenant.id, **conditions.values},
    )
    return [_Row(segment_id(id_), *row) for id_, *row in rows]


def _segment_conditions(selector: Selector) -> Conditions:
    """The conditions that select segments; names compare as in filters."""
    if selector.filter is not None:
        return conditions_of(selector.filter)
    conditions = Conditions()
    if selector.session is not None:
        conditions.add("tags && {}::text[]", [f"c:{selector.session}"])
    elif selector.speaker is not None:
        conditions.add("tags && {}::text[]", [f"s:{name_key(selector.speaker)}"])
    elif not selector.everything:
        conditions.add("id = ANY ({}::text[])", sorted(_named(selector, ItemKind.SEGMENT)))
    return conditions


async def _lock_facts(
    connection: Connection, tenant: Tenant, selector: Selector, gone: Sequence[str]
) -> list[_Row]:
    """Locks all facts that will change, in the order in which writers lock.

    `gone` are the segments that are erased; a named one counts even if it was not stored. Returns
    the facts to erase: the selected ones, and those left without evidence.
    """
    named = sorted(_named(selector, ItemKind.FACT))
    erased = changed = "true"
    if not selector.everything:
        erased = _FACT_GOES
        changed = """
        (id = ANY (%(named)s::text[]) OR evidence && %(gone)s::text[]
         OR closed_by <> '{}' AND closed_by && ARRAY(
              SELECT closer.id FROM fact AS closer
               WHERE closer.tenant_id = %(tenant_id)s::int4 -- tenant filter
                 AND (closer.id = ANY (%(named)s::text[])
                      OR closer.evidence && %(gone)s::text[])))
        """
    rows = await connection.fetch_all(
        f"""
        SELECT id, key, {names.NAME_KEYS[ItemKind.FACT]}, {erased} FROM fact
         WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
           AND {changed}
         ORDER BY id FOR UPDATE
        """,
        {"tenant_id": tenant.id, "named": named, "gone": gone},
    )
    return [_Row(fact_id(id_), *row) for id_, *row, goes in rows if goes]


async def _sample(connection: Connection, rows: Sequence[_Row]) -> list[ErasedItem]:
    """Reads the first of the segments and of the facts, with their vectors."""
    items: dict[int, tuple[Item, bool]] = {}
    for kind in ItemKind:
        keys = [row.key for row in rows if row.item.kind is kind][:SAMPLED]
        for key, hidden, *columns in await connection.fetch_all(
            f"SELECT key, {IS_HIDDEN[kind]}, {COLUMNS[kind]} FROM {kind} "
            "WHERE key = ANY (%s::int8[]) ORDER BY id",
            [keys],
        ):
            items[key] = (TO_ITEM[kind](columns), hidden)
    vectors: defaultdict[int, dict[str, Vector]] = defaultdict(dict)
    for key, fingerprint, vector in await connection.fetch_all(
        "SELECT key, fingerprint, vector FROM embedding "
        "JOIN embedding_model ON embedding_model.id = model_id "
        "WHERE key = ANY (%s::int8[]) AND window_no = 0",
        [[*items]],
    ):
        [sound] = sound_rows(np.frombuffer(vector, STORED_TYPE).astype(np.float32)[np.newaxis])
        if sound is not None:  # no index has it otherwise
            vectors[key][fingerprint] = sound
    return [ErasedItem(item, hidden, vectors[key]) for key, (item, hidden) in items.items()]


async def _delete(connection: Connection, keys: Sequence[int]) -> None:
    for kind in ItemKind:
        await connection.execute(f"DELETE FROM {kind} WHERE key = ANY (%s::int8[])", [keys])


async def _withdraw_evidence(
    connection: Connection, tenant: Tenant, gone: Sequence[str]
) -> set[int]:
    """Removes the segments `gone` from facts that have other evidence; returns the facts' keys.

    Clears their content hash, so that a write of any content counts as a change.
    """
    rows = await connection.fetch_all(
        """
        UPDATE fact
           SET evidence = ARRAY(SELECT kept FROM unnest(evidence) WITH ORDINALITY AS e (kept, place)
                                 WHERE kept <> ALL (%(gone)s::text[]) ORDER BY place),
               content_hash = %(no_hash)s, written_xid = pg_current_xact_id(), updated_at = now(),
               version = version + 1
         WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
           AND evidence && %(gone)s::text[]
        RETURNING key
        """,
        {"tenant_id": tenant.id, "gone": gone, "no_hash": NO_HASH},
    )
    return {key for (key,) in rows}


_EXPIRED_OF_KINDS = " UNION ALL ".join(
    f"""
    (SELECT tenant.name, '{kind}', {kind}.id, {kind}.expires_at
       FROM {kind} JOIN tenant ON tenant.id = {kind}.tenant_id
      WHERE {kind}.expires_at <= %(by)s::timestamptz
      ORDER BY {kind}.expires_at LIMIT %(limit)s::int4)
    """
    for kind in ItemKind
)
_EXPIRED = f"""
SELECT name, kind, id
  FROM ({_EXPIRED_OF_KINDS}) AS expired (name, kind, id, expires_at)
 ORDER BY expires_at LIMIT %(limit)s::int4
"""
"""Facts go with the last of their evidence, so each kind is asked for its own times alone."""
