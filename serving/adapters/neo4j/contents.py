"""The contents of the graph, for the comparison with PostgreSQL."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, LiteralString

import neo4j

from serving.adapters.neo4j.errors import driver_errors
from serving.adapters.neo4j.graph import Neo4jSettings
from serving.adapters.neo4j.names import tenant_token
from serving.adapters.neo4j.rows import fact_row, segment_row
from serving.domain.items.records import Fact, ItemId, ItemKind, Segment, TenantName
from serving.domain.questions.named_entities import entity_key, entity_words
from serving.ports.graph import GraphChanges
from serving.ports.verification import Difference

BATCH_ITEMS = 1000


@asynccontextmanager
async def open_contents(settings: Neo4jSettings) -> AsyncIterator[Neo4jContents]:
    """Connects to Neo4j; raises DependencyError if it cannot be reached."""
    async with settings.open_driver() as driver:
        with driver_errors():
            await driver.verify_connectivity()  # at once; a query would be tried again
        yield Neo4jContents(driver, settings.database)


class Neo4jContents:
    """`GraphContents` in Neo4j."""

    def __init__(self, driver: neo4j.AsyncDriver, database: str) -> None:
        self._driver = driver
        self._database = database

    async def tenants(self) -> list[TenantName]:
        return [TenantName(row["tenant"]) for row in await self._all(_TENANTS)]

    async def items(self, tenant: TenantName) -> AsyncIterator[list[ItemId]]:
        for kind in ItemKind:
            last = ""
            while rows := await self._all(_IDS[kind], tenant=tenant, last=last, limit=BATCH_ITEMS):
                yield [ItemId(kind, row["id"]) for row in rows]
                last = rows[-1]["id"]

    async def differing(
        self, tenant: TenantName, rows: GraphChanges
    ) -> Mapping[ItemId, Difference]:
        """Compares hashes of the content, which are computed from what the projector writes."""
        wanted = {item.item: _of_segment(tenant, item) for _, item in rows.segments}
        wanted |= {item.item: _of_fact(tenant, item) for _, item in rows.facts}
        found = await self._digests(tenant, [*wanted, *(item for _, item in rows.removed)])
        return {
            item: _difference(wanted.get(item), found.get(item))
            for item in [*wanted, *(found.keys() - wanted.keys())]
            if wanted.get(item) != found.get(item)
        }

    async def unsound_entities(self, tenant: TenantName) -> list[str]:
        rows = await self._all(_ENTITIES, tenant=tenant)
        return [
            row["key"]
            for row in rows
            if not row["is_used"]
            or row["token"] != tenant_token(tenant)
            or entity_key(row["name"] or "") != row["key"]
            or entity_words(row["name"] or "") != row["words"]
        ]

    async def remove_entities(self, tenant: TenantName, keys: Sequence[str]) -> None:
        await self._all(_REMOVE_ENTITIES, tenant=tenant, keys=keys)

    async def _digests(self, tenant: TenantName, items: Sequence[ItemId]) -> dict[ItemId, bytes]:
        """The hashes of those items that are there."""
        return {
            ItemId(kind, row["properties"]["id"]): _digest(row["properties"], row["related"])
            for kind in ItemKind
            for row in await self._all(
                _CONTENTS[kind], tenant=tenant, ids=[item.id for item in items if item.kind is kind]
            )
        }

    async def _all(self, statement: LiteralString, **given: object) -> list[neo4j.Record]:
        with driver_errors():
            result = await self._driver.execute_query(
                statement, given=given, database_=self._database
            )
        return result.records


def _of_segment(tenant: TenantName, segment: Segment) -> bytes:
    row = segment_row(tenant, segment)
    return _digest(row["properties"], [_keys(row["mentions"]), _keys(row["is"])])


def _of_fact(tenant: TenantName, fact: Fact) -> bytes:
    row = fact_row(tenant, fact)
    return _digest(
        row["properties"], [_keys([row["subject"]]), _keys([row["object"]]), row["evidence"]]
    )


def _keys(entities: Any) -> list[str]:
    return [entity["key"] for entity in entities]


def _digest(properties: Any, related: Any) -> bytes:
    """The hash of a node's properties, and of the ids of the nodes that each relation leads to."""
    content = [
        {name: value for name, value in properties.items() if value is not None},
        [sorted(set(ids)) for ids in related],
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()


def _difference(wanted: bytes | None, found: bytes | None) -> Difference:
    if wanted is None:
        return Difference.LEFT_OVER
    return Difference.MISSING if found is None else Difference.STALE


_TENANTS = """
MATCH (node) WHERE node:Segment OR node:Fact OR node:Entity
RETURN DISTINCT node.tenant AS tenant
"""

_IDS = {
    ItemKind.SEGMENT: """
    MATCH (node:Segment {tenant: $given.tenant})
    WHERE node.id > $given.last AND node.event_time IS NOT NULL
    RETURN node.id AS id ORDER BY id LIMIT $given.limit
    """,
    ItemKind.FACT: """
    MATCH (node:Fact {tenant: $given.tenant}) WHERE node.id > $given.last
    RETURN node.id AS id ORDER BY id LIMIT $given.limit
    """,
}

_CONTENTS = {
    ItemKind.SEGMENT: """
    UNWIND $given.ids AS id
    MATCH (node:Segment {tenant: $given.tenant, id: id}) WHERE node.event_time IS NOT NULL
    RETURN properties(node) AS properties,
           [[(node)-[:MENTIONS]->(entity) | entity.key], [(node)-[:IS]->(entity) | entity.key]]
           AS related
    """,
    ItemKind.FACT: """
    UNWIND $given.ids AS id
    MATCH (node:Fact {tenant: $given.tenant, id: id})
    RETURN properties(node) AS properties,
           [[(node)-[:SUBJECT]->(entity) | entity.key], [(node)-[:OBJECT]->(entity) | entity.key],
            [(node)-[:EVIDENCE]->(segment) | segment.id]] AS related
    """,
}

_ENTITIES = """
MATCH (node:Entity {tenant: $given.tenant})
RETURN node.key AS key, node.words AS words, node.name AS name, node.tenant_token AS token,
       EXISTS { (node)--() } AS is_used
"""

_REMOVE_ENTITIES = """
UNWIND $given.keys AS key
MATCH (node:Entity {tenant: $given.tenant, key: key})
DETACH DELETE node
"""
