"""The current state of items, as projections may see it: hidden items count as erased."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

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
"""The given names, joined with their tenants."""

JOIN_ITEM = {
    kind: f"""
    JOIN {kind} ON {kind}.tenant_id = tenant.id -- tenant filter
               AND {kind}.id = wanted.id
    """
    for kind in ItemKind
}


def name_values(names: Iterable[Name], kind: ItemKind) -> dict[str, list[str]]:
    """The values of `FROM_NAMES` for the names of one kind."""
    of_kind = [(tenant, item.id) for tenant, item in names if item.kind is kind]
    return {"tenants": [tenant for tenant, _ in of_kind], "ids": [id_ for _, id_ in of_kind]}


async def read_current(connection: Connection, names: Sequence[Name]) -> dict[Name, Item]:
    """Reads the items that exist and are not hidden."""
    current: dict[Name, Item] = {}
    for kind in ItemKind:
        values = name_values(names, kind)
        if values["ids"]:
            for tenant, *row in await connection.fetch_all(_CURRENT[kind], values):
                item = TO_ITEM[kind](row)
                current[TenantName(tenant), item.item] = item
    return current


async def read_graph_changes(connection: Connection, names: Sequence[Name]) -> GraphChanges:
    """The state that the items should have in the graph now."""
    current = await read_current(connection, names)
    return GraphChanges(
        segments=[
            (tenant, item) for (tenant, _), item in current.items() if isinstance(item, Segment)
        ],
        facts=[(tenant, item) for (tenant, _), item in current.items() if isinstance(item, Fact)],
        removed=[name for name in names if name not in current],
    )


_CURRENT = {
    kind: f"""
    SELECT tenant.name, {COLUMNS[kind]} {FROM_NAMES} {JOIN_ITEM[kind]}
     WHERE NOT {IS_HIDDEN[kind]}
    """
    for kind in ItemKind
}
