"""What each store holds, read past the service where that is possible."""

from __future__ import annotations

from collections.abc import Iterable

import neo4j
import psycopg

from bench.speed.ingest import only
from tests.chaos.checker import POSTGRES, Held, Stores
from tests.chaos.desk import Desk
from tests.chaos.items import ANOTHER, AS_WRITTEN, ItemName, harbour, version_at, version_in
from trivium import AsyncClient, Retrieval

SAME_TEXT = 0.98
"""The least cosine of a text with itself: vectors are stored in float16."""
TIMEOUT_S = 30.0

ITEMS = """
SELECT tenant.name, item.id, item.text, item.key, item.text_hash
  FROM (SELECT tenant_id, id, text, key, text_hash FROM segment
        UNION ALL SELECT tenant_id, id, sentence, key, text_hash FROM fact) AS item
  JOIN tenant ON tenant.id = item.tenant_id
"""

VECTORS = f"""
SELECT item.name, item.id, item.text, item.text_hash = embedding.text_hash, embedding.key,
       embedding.window_no < 0
  FROM embedding LEFT JOIN ({ITEMS}) AS item USING (key)
"""

SEGMENTS = """
MATCH (node:Segment) RETURN node.tenant AS tenant, node.id AS id, node.event_time AS at
"""

FACTS = """
MATCH (node:Fact)
OPTIONAL MATCH (node)-[:OBJECT]->(object)
RETURN node.tenant AS tenant, node.id AS id, node.recorded_at AS at, object.name AS object
"""

UNUSED_NAMES = """
MATCH (node:Entity) WHERE NOT (node)--() RETURN node.tenant AS tenant, node.name AS id
"""


async def read_stores(desk: Desk, client: AsyncClient) -> Stores:
    """Reads all stores; nothing may be written meanwhile."""
    with psycopg.connect(desk.postgres_dsn) as connection:
        texts = {
            ItemName(tenant, id_): text
            for tenant, id_, text, *_ in connection.execute(ITEMS).fetchall()
        }
        rows = connection.execute(VECTORS).fetchall()
    vectors = [
        Held(
            ItemName(tenant or "", id_ or f"vector {key}."),
            version_in(text) if current else ANOTHER,
        )
        for tenant, id_, text, current, key, in_context in rows
        # A turn has another vector, together with the one before it.
        if not (in_context and id_)
    ]
    return {
        POSTGRES: [Held(item, version_in(text)) for item, text in texts.items()],
        "embeddings": vectors,
        "vector_index": [
            *[row for item, text in texts.items() for row in await _found(client, item, text)],
            *await _surplus(client, len(rows)),
        ],
        "graph": _graph(desk.neo4j_uri),
    }


async def _found(client: AsyncClient, item: ItemName, text: str) -> list[Held]:
    """The item as often as the index finds it by its text."""
    answer = await client.for_tenant(item.tenant).retrieve(
        text,
        limit=3,
        leg_overrides=only("facts" if item.is_fact else "dense"),
        profile_overrides=AS_WRITTEN,
        explain=True,
        timeout=TIMEOUT_S,
    )
    return [
        Held(item, version_in(text) if cosine > SAME_TEXT else ANOTHER)
        for id_, cosine in _cosines(answer)
        if id_ == item.id
    ]


def _cosines(answer: Retrieval) -> Iterable[tuple[str, float]]:
    """The items whose vectors led to hits, and how near they are."""
    for hit in answer.hits:
        assert hit.ledger is not None, "it was asked for"
        for term in hit.ledger.leg_terms:
            if term.leg in ("dense", "facts"):
                yield from ((id_, term.leg_score) for id_ in (term.fact_ids or (hit.id,)))


async def _surplus(client: AsyncClient, expected: int) -> list[Held]:
    """A row for the vectors of the index that PostgreSQL does not have."""
    count = (await client.stats()).index.vector_count
    surplus = count - expected
    return [Held(ItemName("", f"{surplus} more vectors."), ANOTHER)] if surplus > 0 else []


def _graph(uri: str) -> list[Held]:
    with neo4j.GraphDatabase.driver(uri) as driver:
        segments = driver.execute_query(SEGMENTS).records
        facts = driver.execute_query(FACTS).records
        names = driver.execute_query(UNUSED_NAMES).records
    return [
        *(Held(_name(row), version_at(row["at"])) for row in segments),
        *(Held(_name(row), _version_of_fact(row)) for row in facts),
        *(Held(ItemName(row["tenant"], f"{row['id']}."), ANOTHER) for row in names),
    ]


def _name(row: neo4j.Record) -> ItemName:
    return ItemName(row["tenant"], row["id"])


def _version_of_fact(row: neo4j.Record) -> int:
    version = version_at(row["at"])
    return version if row["object"] == harbour(version) else ANOTHER
