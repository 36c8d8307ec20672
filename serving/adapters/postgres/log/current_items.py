"""The current state of items, as projections may see it: hidden items count as erased."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.tables.filters import IS_HIDDEN
from serving.adapters.postgres.tables.rows import COLUMNS, TO_ITEM
from serving.domain.items.records import Fact, Item, ItemId, ItemKind, Segment, TenantName
from serving.ports.graph import GraphChanges

Name: TypeAlias = tuple[TenantName, ItemId]
"""The name of an item among those of all tenants."""

FROM_NAMES = """
  FROM unnest(%(tenants)s::text[], %(ids)s::text[]) AS wanted (tenant, id)
  JOIN tenant ON tenant.name = wanted.tenant
"""
"""The names of `read_named`, joined with their tenants."""

JOIN_ITEM = {
    kind: f"""
    JOIN {kind} ON {kind}.tenant_id = tenant.id -- tenant filter
               AND {kind}.id = wanted.id
    """
    for kind in ItemKind
}


async def read_named(
    connection: Connection,
    statements: Mapping[ItemKind, str],
    names: Sequence[Name],
    values: Mapping[str, object] = MappingProxyType({}),
) -> list[tuple[ItemKind, Sequence[Any]]]:
    """The rows of named items, each with its kind; a statement per kind reads `FROM_NAMES`."""
    rows: list[tuple[ItemKind, Sequence[Any]]] = []
    for kind, statement in statements.items():
        of_kind = [(tenant, item.id) for tenant, item in names if item.kind is kind]
        if of_kind:
            tenants, ids = map(list, zip(*of_kind, strict=True))
            given = {**values, "tenants": tenants, "ids": ids}
            rows += [(kind, row) for row in await connection.fetch_all(statement, given)]
    return rows


async def read_graph_changes(connection: Connection, names: Sequence[Name]) -> GraphChanges:
    """The state that the items should have in the graph now."""
    current: dict[Name, Item] = {}
    for kind, (tenant, *row) in await read_named(connection, _CURRENT, names):
        item = TO_ITEM[kind](row)
        current[TenantName(tenant), item.item] = item
    return GraphChanges(
        segments=[(of, item) for (of, _), item in current.items() if isinstance(item, Segment)],
        facts=[(of, item) for (of, _), item in current.items() if isinstance(item, Fact)],
        removed=[name for name in names if name not in current],
    )


_CURRENT = {
    kind: f"""
    SELECT tenant.name, {COLUMNS[kind]} {FROM_NAMES} {JOIN_ITEM[kind]}
     WHERE NOT {IS_HIDDEN[kind]}
    """
    for kind in ItemKind
}
