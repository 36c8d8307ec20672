"""What items are now, for the projections: the sensitive are as good as gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from serving.adapters.postgres.pool import Connection
from serving.adapters.postgres.rows import (
    FACT_COLUMNS,
    FACT_IS_HIDDEN,
    SEGMENT_COLUMNS,
    columns_of,
    to_fact,
    to_segment,
)
from serving.domain.records import Item, ItemId, ItemKind, TenantName

Name: TypeAlias = tuple[TenantName, ItemId]
"""What an item is called, over all tenants."""

ASKED = """
  FROM unnest(%(tenants)s::text[], %(ids)s::text[]) AS asked (tenant, id)
  JOIN tenant ON tenant.name = asked.tenant
"""
"""The items asked for, with their tenants' rows."""


def asked_for(names: Iterable[Name], kind: ItemKind) -> dict[str, list[str]]:
    """The values of `ASKED` for the names of one kind."""
    of_kind = [(tenant, item.id) for tenant, item in names if item.kind is kind]
    return {"tenants": [tenant for tenant, _ in of_kind], "ids": [id_ for _, id_ in of_kind]}


async def read_current(connection: Connection, names: Sequence[Name]) -> dict[Name, Item]:
    """Reads the items that exist and are not to be treated as sensitive."""
    segments = await _read(connection, _SEGMENTS, asked_for(names, ItemKind.SEGMENT))
    facts = await _read(connection, _FACTS, asked_for(names, ItemKind.FACT))
    read: list[tuple[str, Item]] = [(row[0], to_segment(row[1:])) for row in segments]
    read += [(row[0], to_fact(row[1:])) for row in facts]
    return {(TenantName(tenant), item.item): item for tenant, item in read}


async def _read(
    connection: Connection, statement: str, asked: dict[str, list[str]]
) -> list[tuple[Any, ...]]:
    if not asked["ids"]:
        return []
    cursor = await connection.execute(statement, asked, binary=True)
    return await cursor.fetchall()


_SEGMENTS = f"""
SELECT tenant.name, {columns_of("segment", SEGMENT_COLUMNS)} {ASKED}
  JOIN segment ON segment.tenant_id = tenant.id -- tenant filter
              AND segment.id = asked.id
 WHERE NOT segment.sensitive
"""

_FACTS = f"""
SELECT tenant.name, {columns_of("fact", FACT_COLUMNS)} {ASKED}
  JOIN fact ON fact.tenant_id = tenant.id -- tenant filter
           AND fact.id = asked.id
 WHERE NOT {FACT_IS_HIDDEN}
"""
