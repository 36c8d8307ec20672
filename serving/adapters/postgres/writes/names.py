"""The names of a tenant's entities: those that a row uses which is not hidden.

Names correct the words of questions and are recognized in new texts, so a name that only hidden
rows use is not stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.tables.filters import IS_HIDDEN
from serving.adapters.postgres.tables.tenants import Tenant
from serving.domain.items.records import MAX_NAME_BYTES, Fact, Item, ItemId, ItemKind, Segment
from serving.domain.items.text import name_key

NAME_KEYS = {
    ItemKind.SEGMENT: (
        "ARRAY(SELECT substr(tag, 3) FROM unnest(segment.tags) AS tag WHERE starts_with(tag, 'e:'))"
    ),
    ItemKind.FACT: "fact.entity_keys",
}
"""SQL for the names that a stored row uses, by name key."""


def names_of(item: Item) -> list[str]:
    """The names that an item uses."""
    if isinstance(item, Segment):
        return [*item.entities, *([item.entity] if item.entity else [])]
    return _names_of_fact(item.subject, item.object)


def _names_of_fact(subject: str, object_: str) -> list[str]:
    return [subject, *([object_] if len(object_.encode()) <= MAX_NAME_BYTES else [])]


def entity_keys_of(fact: Fact) -> list[str]:
    """The keys of a fact's names, as they are stored with it."""
    return sorted({name_key(name) for name in names_of(fact)})


def names_dropped(former: Collection[str], item: Item) -> set[str]:
    """The keys of a row's former names that may be in no shown row after it is written.

    Of a fact all, since its new evidence may hide it.
    """
    if isinstance(item, Segment) and not item.sensitive:
        return set(former) - set(map(name_key, names_of(item)))
    return set(former)


async def store_names(
    connection: Connection, tenant: Tenant, items: Iterable[Item], keys: Mapping[ItemId, int]
) -> None:
    """Stores the names of written items; `keys` are those of their rows."""
    shown: list[tuple[int | None, str]] = []
    for item in items:
        if not item.sensitive:
            # A segment is hidden by nothing else.
            row = None if isinstance(item, Segment) else keys[item.item]
            shown.extend((row, name) for name in names_of(item))
    await _insert(connection, tenant, shown)


async def store_names_of_facts(
    connection: Connection, tenant: Tenant, keys: Collection[int]
) -> None:
    """Stores the names of facts whose evidence changed, which may be hidden no longer."""
    if not keys:
        return
    rows = await connection.fetch_all(
        "SELECT key, subject, object FROM fact WHERE key = ANY (%s::int8[]) ORDER BY key", [[*keys]]
    )
    names = [(key, name) for key, *ends in rows for name in _names_of_fact(*ends)]
    await _insert(connection, tenant, names)


async def _insert(
    connection: Connection, tenant: Tenant, names: Sequence[tuple[int | None, str]]
) -> None:
    """Inserts names, each in its first spelling; those of hidden facts, given by key, are not."""
    first = {(row, name_key(name)): name for row, name in reversed(names)}
    if not first:
        return
    await connection.execute(
        f"""
        INSERT INTO entity (tenant_id, name_key, name)
        SELECT %(tenant_id)s::int4, name_key, name
          FROM unnest(%(rows)s::int8[], %(name_keys)s::text[], %(names)s::text[])
               AS given (row_key, name_key, name)
         WHERE NOT EXISTS (SELECT FROM fact
                            WHERE fact.key = given.row_key AND {IS_HIDDEN[ItemKind.FACT]})
         ORDER BY name_key COLLATE "C"
            ON CONFLICT DO NOTHING
        """,
        {
            "tenant_id": tenant.id,
            "rows": [row for row, _ in first],
            "name_keys": [key for _, key in first],
            "names": [*first.values()],
        },
    )


async def delete_unused_names(
    connection: Connection, tenant: Tenant, name_keys: Collection[str]
) -> list[str]:
    """Deletes the names that no shown row uses, and returns their keys.

    That invalidates the caches (known_names.py). The tenant is locked exclusively: a concurrent
    writer might use one of them.
    """
    if not name_keys:
        return []
    rows = await connection.fetch_all(
        f"""
        DELETE FROM entity
         WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
           AND name_key = ANY (%(name_keys)s::text[])
           AND NOT EXISTS (SELECT FROM segment
                            WHERE segment.tenant_id = entity.tenant_id
                              AND segment.tags && ARRAY['e:' || entity.name_key]
                              AND NOT {IS_HIDDEN[ItemKind.SEGMENT]})
           AND NOT EXISTS (SELECT FROM fact
                            WHERE fact.tenant_id = entity.tenant_id
                              AND fact.entity_keys && ARRAY[entity.name_key]
                              AND NOT {IS_HIDDEN[ItemKind.FACT]})
        RETURNING name_key
        """,
        {"tenant_id": tenant.id, "name_keys": sorted(name_keys)},
    )
    deleted = [key for (key,) in rows]
    if deleted:
        await connection.execute(
            "UPDATE tenant SET names_erased = names_erased + 1 WHERE id = %s::int4", [tenant.id]
        )
    return deleted
