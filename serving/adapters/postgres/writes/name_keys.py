"""Computes the stored name keys anew after a change of `name_key`.

For each tenant, in one transaction under its exclusive lock:

1. Compute the keys of every row, and store those that changed. The log then makes the vector index
   and the graph read these rows.
2. Decide anew which facts close which others, since topics have changed. A fact that loses a
   closing is marked as opened again, which `serving verify` reports.
3. Store the tenant's names anew, each under its key.

When all tenants are done, the version of the keys is recorded. Rows whose keys are right are read
and not changed, so it can be cut off anywhere and repeated.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence

from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.log.entries import log_written
from serving.adapters.postgres.tables.filters import IS_HIDDEN, tags_of
from serving.adapters.postgres.tables.rows import COLUMNS, TO_ITEM, array_literal, to_fact
from serving.adapters.postgres.tables.tenants import Tenant, find_tenant, lock_tenant
from serving.adapters.postgres.writes.closings import refresh_closings, topic_hash
from serving.adapters.postgres.writes.names import delete_unused_names, entity_keys_of, names_of
from serving.domain.items.records import Fact, Item, ItemKind, Segment, TenantName
from serving.domain.items.superseding import topic_of
from serving.domain.items.text import NAME_KEY_VERSION, name_key

logger = logging.getLogger(__name__)

ROWS_AT_ONCE = 1000


async def refresh_name_keys(connection: Connection) -> None:
    """Computes the keys anew if they are of another version; nothing else runs on `connection`."""
    (version,) = await connection.fetch_row("SELECT name_key_version FROM meta")
    if version >= NAME_KEY_VERSION:
        return
    rows = await connection.fetch_all("SELECT name FROM tenant ORDER BY id")
    for (name,) in rows:
        async with connection.transaction():
            await _refresh_tenant(connection, TenantName(name))
    await connection.execute("UPDATE meta SET name_key_version = %s::int4", [NAME_KEY_VERSION])


async def _refresh_tenant(connection: Connection, name: TenantName) -> None:
    await lock_tenant(connection, name, exclusive=True)
    tenant = await find_tenant(connection, name)
    if tenant is None:  # erased meanwhile
        return
    names: dict[str, str] = {}
    changed = 0
    for kind in ItemKind:
        async for rows in _rows(connection, tenant, kind):
            shown = [item for _, item, hidden in rows if not hidden]
            for each in (name for item in shown for name in names_of(item)):
                names.setdefault(name_key(each), each)
            changed += await _store_keys(connection, tenant, kind, rows)
    reopened = await _reopen_facts(connection, tenant)
    await _store_names(connection, tenant, names)
    if changed or reopened:
        logger.info(
            "name keys computed anew",
            extra={"tenant": name, "rows": changed, "facts_opened_again": reopened},
        )


async def _rows(
    connection: Connection, tenant: Tenant, kind: ItemKind
) -> AsyncIterator[list[tuple[int, Item, bool]]]:
    """The tenant's rows by id, in parts: key, item, and whether it is hidden."""
    last = ""
    while True:
        rows = await connection.fetch_all(
            f"""
            SELECT key, {IS_HIDDEN[kind]}, {COLUMNS[kind]} FROM {kind}
             WHERE tenant_id = %s::int4 -- tenant filter
               AND id > %s::text
             ORDER BY id LIMIT %s::int4
            """,
            [tenant.id, last, ROWS_AT_ONCE],
        )
        rows = [(key, TO_ITEM[kind](row), hidden) for key, hidden, *row in rows]
        if not rows:
            return
        yield rows
        last = rows[-1][1].id


async def _store_keys(
    connection: Connection, tenant: Tenant, kind: ItemKind, rows: Sequence[tuple[int, Item, bool]]
) -> int:
    """Stores the keys of those rows that have others; returns how many."""
    values = {"keys": [key for key, _, _ in rows], **_keys_of([item for _, item, _ in rows])}
    changed = [key for (key,) in await connection.fetch_all(_STORE[kind], values)]
    await log_written(connection, tenant, dict.fromkeys(changed, kind))
    return len(changed)


def _keys_of(items: Sequence[Item]) -> dict[str, list[str] | list[bytes]]:
    """The columns with name keys, of segments or of facts."""
    facts = [item for item in items if isinstance(item, Fact)]
    return {
        "terms": [array_literal(tags_of(item)) for item in items if isinstance(item, Segment)],
        "entity_keys": [array_literal(entity_keys_of(fact)) for fact in facts],
        "topics": [topic_hash(topic_of(fact)) for fact in facts],
    }


async def _reopen_facts(connection: Connection, tenant: Tenant) -> int:
    """Decides anew what closes the facts that are closed; returns how many lost a closing."""
    rows = await connection.fetch_all(
        f"""
        SELECT {COLUMNS[ItemKind.FACT]} FROM fact
         WHERE tenant_id = %s::int4 -- tenant filter
           AND closed_by <> '{{}}'
        """,
        [tenant.id],
    )
    closed = [to_fact(row) for row in rows]
    reopened = 0
    for start in range(0, len(closed), ROWS_AT_ONCE):
        part = closed[start : start + ROWS_AT_ONCE]
        changed = await refresh_closings(connection, tenant, part)
        await connection.execute(
            "UPDATE fact SET reopened_at = now() WHERE key = ANY (%s::int8[])", [[*changed]]
        )
        await log_written(connection, tenant, dict.fromkeys(changed, ItemKind.FACT))
        reopened += len(changed)
    return reopened


async def _store_names(connection: Connection, tenant: Tenant, names: Mapping[str, str]) -> None:
    """Stores the names of all shown rows, and deletes those that no row has under that key."""
    rows = await connection.fetch_all(
        """
        SELECT name_key, name FROM entity
         WHERE tenant_id = %s::int4 -- tenant filter
        """,
        [tenant.id],
    )
    wrong = [key for key, name in rows if name_key(name) != key]
    await connection.execute(
        """
        INSERT INTO entity (tenant_id, name_key, name)
        SELECT %s::int4, * FROM unnest(%s::text[], %s::text[])
            ON CONFLICT (tenant_id, name_key) DO UPDATE
           SET name = excluded.name, added_xid = pg_current_xact_id()
         WHERE entity.name_key = ANY (%s::text[])
        """,
        [tenant.id, [*names], [*names.values()], wrong],
    )
    await delete_unused_names(connection, tenant, wrong)


_STORE = {
    ItemKind.SEGMENT: """
    UPDATE segment
       SET tags = new.terms::text[], written_xid = pg_current_xact_id()
      FROM unnest(%(keys)s::int8[], %(terms)s::text[]) AS new (key, terms)
     WHERE segment.key = new.key AND segment.tags <> new.terms::text[]
    RETURNING segment.key
    """,
    ItemKind.FACT: """
    UPDATE fact
       SET entity_keys = new.entity_keys::text[], topic = new.topic,
           written_xid = pg_current_xact_id()
      FROM unnest(%(keys)s::int8[], %(entity_keys)s::text[], %(topics)s::bytea[])
           AS new (key, entity_keys, topic)
     WHERE fact.key = new.key
       AND (fact.entity_keys <> new.entity_keys::text[] OR fact.topic IS DISTINCT FROM new.topic)
    RETURNING fact.key
    """,
}
