"""Erasing within one transaction: the rows, and all that is kept about them.

Rows are deleted for good. What remains is a line in the change log with the item's name, for as
long as the projections may need to be told (compaction.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from serving.adapters.postgres.pool import Connection
from serving.adapters.postgres.superseding import find_closed_by, refresh_closings
from serving.adapters.postgres.tenancy import Tenant, find_tenant, lock_tenant
from serving.domain.consistency import ConsistencyToken
from serving.domain.records import ItemId, ItemKind, TenantName
from serving.domain.text import name_key
from serving.ports import EraseReceipt, Selector

NO_HASH = b""
"""The content hash of a row that is no longer as it was sent."""


@dataclass(frozen=True, slots=True)
class _Erased:
    item: ItemId
    key: int
    name_keys: list[str]


async def erase_selected(
    connection: Connection, name: TenantName, selector: Selector
) -> EraseReceipt:
    """Erases what is selected; `connection` is in a transaction."""
    epoch = await lock_tenant(connection, name, exclusive=True)
    tenant = await find_tenant(connection, name)
    if tenant is None:
        return EraseReceipt([], ConsistencyToken.of(epoch, []))
    segments = await _delete_segments(connection, tenant, selector)
    facts, changed = await _erase_facts(connection, tenant, selector, segments)
    changed |= await _reopen(connection, tenant, facts)
    erased = [*segments, *facts]
    await _delete_derived(connection, [row.key for row in erased])
    await _log_changed(connection, tenant, changed)
    await _log_erased(connection, tenant, erased)
    await _forget_names(connection, tenant, {key for row in erased for key in row.name_keys})
    if selector.everything:
        await _delete_tenant(connection, tenant)
    xids = [await _current_xid(connection)] if erased or changed else []
    return EraseReceipt([row.item for row in erased], ConsistencyToken.of(epoch, xids))


def _named(selector: Selector, kind: ItemKind) -> set[str]:
    return {item.id for item in selector.items or () if item.kind is kind}


async def _delete_segments(
    connection: Connection, tenant: Tenant, selector: Selector
) -> list[_Erased]:
    condition, value = _segment_condition(selector)
    cursor = await connection.execute(
        f"""
        WITH selected AS (
          SELECT key FROM segment
           WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
             AND {condition}
           ORDER BY id FOR UPDATE
        )
        DELETE FROM segment USING selected WHERE segment.key = selected.key
        RETURNING segment.id, segment.key,
                  ARRAY(SELECT substr(tag, 3) FROM unnest(segment.tags) AS tag
                         WHERE starts_with(tag, 'e:'))
        """,
        {"tenant_id": tenant.id, "value": value},
    )
    return _erased(ItemKind.SEGMENT, await cursor.fetchall())


def _segment_condition(selector: Selector) -> tuple[str, list[str]]:
    """The condition, with `%(value)s`, and its value; names are compared as filters do."""
    if selector.everything:
        return "true", []
    if selector.session is not None:
        return "tags && %(value)s::text[]", [f"c:{selector.session}"]
    if selector.speaker is not None:
        return "tags && %(value)s::text[]", [f"s:{name_key(selector.speaker)}"]
    return "id = ANY (%(value)s::text[])", sorted(_named(selector, ItemKind.SEGMENT))


async def _erase_facts(
    connection: Connection, tenant: Tenant, selector: Selector, segments: Sequence[_Erased]
) -> tuple[list[_Erased], set[int]]:
    """Deletes the facts that are selected, or left without evidence; changes those left with some.

    A segment that is named counts as gone even if it was not stored.

    Returns:
        What was deleted, and the keys of what was changed.
    """
    if selector.everything:
        return await _delete_facts_where(connection, tenant, "true", []), set()
    named = sorted(_named(selector, ItemKind.FACT))
    gone = sorted({row.item.id for row in segments} | _named(selector, ItemKind.SEGMENT))
    await _lock_facts(connection, tenant, named, gone)
    deleted = await _delete_facts_where(connection, tenant, "id = ANY (%(ids)s::text[])", named)
    deleted += await _delete_facts_where(
        connection, tenant, "evidence && %(ids)s::text[] AND evidence <@ %(ids)s::text[]", gone
    )
    return deleted, await _withdraw_evidence(connection, tenant, gone)


async def _lock_facts(
    connection: Connection, tenant: Tenant, named: Sequence[str], gone: Sequence[str]
) -> None:
    """Locks all facts that are to change, in the one order in which rows are locked."""
    await connection.execute(
        """
        SELECT FROM fact
         WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
           AND (id = ANY (%(named)s::text[]) OR evidence && %(gone)s::text[]
                OR closed_by <> '{}' AND closed_by && ARRAY(
                     SELECT closer.id FROM fact AS closer
                      WHERE closer.tenant_id = %(tenant_id)s::int4 -- tenant filter
                        AND (closer.id = ANY (%(named)s::text[])
                             OR closer.evidence && %(gone)s::text[])))
         ORDER BY id FOR UPDATE
        """,
        {"tenant_id": tenant.id, "named": named, "gone": gone},
    )


async def _reopen(connection: Connection, tenant: Tenant, erased: Sequence[_Erased]) -> set[int]:
    """Notes anew what ended the facts that erased ones ended; returns the keys of the changed."""
    closed = await find_closed_by(connection, tenant, [row.item.id for row in erased])
    return await refresh_closings(connection, tenant, closed)


async def _withdraw_evidence(
    connection: Connection, tenant: Tenant, gone: Sequence[str]
) -> set[int]:
    """Takes the segments `gone` from the facts that rest on others too; returns their keys.

    They have no content hash then, so that a write of any content counts as a change.
    """
    cursor = await connection.execute(
        """
        UPDATE fact
           SET evidence = ARRAY(SELECT kept FROM unnest(evidence) WITH ORDINALITY AS e (kept, place)
                                 WHERE kept <> ALL (%(gone)s::text[]) ORDER BY place),
               content_hash = %(no_hash)s, written_xid = pg_current_xact_id(), updated_at = now()
         WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
           AND evidence && %(gone)s::text[]
        RETURNING key
        """,
        {"tenant_id": tenant.id, "gone": gone, "no_hash": NO_HASH},
    )
    return {row[0] for row in await cursor.fetchall()}


async def _delete_facts_where(
    connection: Connection, tenant: Tenant, condition: str, ids: Sequence[str]
) -> list[_Erased]:
    cursor = await connection.execute(
        f"""
        DELETE FROM fact
         WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
           AND {condition}
        RETURNING id, key, entity_keys
        """,
        {"tenant_id": tenant.id, "ids": ids},
    )
    return _erased(ItemKind.FACT, await cursor.fetchall())


def _erased(kind: ItemKind, rows: Iterable[tuple[str, int, list[str]]]) -> list[_Erased]:
    """The deleted rows, by id."""
    return [_Erased(ItemId(kind, id_), key, names) for id_, key, names in sorted(rows)]


async def _delete_derived(connection: Connection, keys: list[int]) -> None:
    if keys:
        for table in ("embedding", "access_count", "set_aside"):
            await connection.execute(f"DELETE FROM {table} WHERE key = ANY (%s::int8[])", [keys])


async def _log_changed(connection: Connection, tenant: Tenant, keys: set[int]) -> None:
    if keys:
        await connection.execute(
            "INSERT INTO change_log (tenant_id, key, kind, op) "
            "SELECT %s::int4, key, 'fact', 'written' FROM unnest(%s::int8[]) AS key",
            [tenant.id, [*keys]],
        )


async def _log_erased(connection: Connection, tenant: Tenant, erased: Sequence[_Erased]) -> None:
    if erased:
        await connection.execute(
            """
            INSERT INTO change_log (tenant_id, key, kind, op, erased_tenant, erased_id)
            SELECT %s::int4, key, kind, 'erased', %s::text, id
              FROM unnest(%s::int8[], %s::text[], %s::text[]) AS erased (key, kind, id)
            """,
            [
                tenant.id,
                tenant.name,
                [row.key for row in erased],
                [str(row.item.kind) for row in erased],
                [row.item.id for row in erased],
            ],
        )


async def _forget_names(connection: Connection, tenant: Tenant, name_keys: set[str]) -> None:
    """Deletes those of the names that nothing uses any more, and counts that for names.py."""
    if not name_keys:
        return
    cursor = await connection.execute(
        """
        DELETE FROM entity
         WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
           AND name_key = ANY (%(name_keys)s::text[])
           AND NOT EXISTS (SELECT FROM segment
                            WHERE segment.tenant_id = entity.tenant_id
                              AND segment.tags && ARRAY['e:' || entity.name_key])
           AND NOT EXISTS (SELECT FROM fact
                            WHERE fact.tenant_id = entity.tenant_id
                              AND fact.entity_keys && ARRAY[entity.name_key])
        """,
        {"tenant_id": tenant.id, "name_keys": sorted(name_keys)},
    )
    if cursor.rowcount:
        await connection.execute(
            "UPDATE tenant SET names_erased = names_erased + 1 WHERE id = %s::int4", [tenant.id]
        )


async def _delete_tenant(connection: Connection, tenant: Tenant) -> None:
    await connection.execute("DELETE FROM entity WHERE tenant_id = %s::int4", [tenant.id])
    await connection.execute("DELETE FROM tenant WHERE id = %s::int4", [tenant.id])


async def _current_xid(connection: Connection) -> int:
    cursor = await connection.execute("SELECT pg_current_xact_id()::text::int8")
    row = await cursor.fetchone()
    assert row is not None, "a SELECT without FROM has a row; this is a bug"
    return int(row[0])
