"""The graph's data model, and the Cypher that writes and counts; searches are in `walks`.

`(:Segment)-[:MENTIONS]->(:Entity)` links a segment to the entities it names and to its speaker,
`(:Segment)-[:IS]->(:Entity)` to the entity it is. An entity is one by its `key`; questions name it
by its `words`, which it may share with others. A fact is a node between its ends,
`(:Fact)-[:SUBJECT|OBJECT]->(:Entity)`, with `(:Fact)-[:EVIDENCE]->(:Segment)`. It is a node, not a
relationship, because it needs a unique id, ends that can change, and direct links to its evidence.
A segment that is cited by facts but not written yet is a node without `event_time`.

Times are microseconds since 1970, which compare faster than Neo4j's temporal types.

Each statement takes all its values in one parameter, the map `given`: Neo4j caches plans per
parameter type, and lists and strings of different orders of length count as different types, while
all maps are one type.
"""

from __future__ import annotations

from typing import LiteralString

SCHEMA = (
    "CREATE CONSTRAINT entity_key IF NOT EXISTS "
    "FOR (entity:Entity) REQUIRE (entity.tenant, entity.key) IS UNIQUE",
    "CREATE INDEX entity_words IF NOT EXISTS FOR (entity:Entity) ON (entity.tenant, entity.words)",
    "CREATE CONSTRAINT segment_id IF NOT EXISTS "
    "FOR (segment:Segment) REQUIRE (segment.tenant, segment.id) IS UNIQUE",
    "CREATE CONSTRAINT fact_id IF NOT EXISTS "
    "FOR (fact:Fact) REQUIRE (fact.tenant, fact.id) IS UNIQUE",
    # The index contains the tenant, so that the tenant filter applies before the limit. Like
    # `content_words`, the analyzer splits at all but letters and digits and drops no word.
    "CREATE FULLTEXT INDEX words_of_entities IF NOT EXISTS "
    "FOR (entity:Entity) ON EACH [entity.words, entity.tenant_token] "
    "OPTIONS {indexConfig: {`fulltext.analyzer`: 'standard-no-stop-words'}}",
    "CALL db.awaitIndexes(300)",
)

INDEXES: list[LiteralString] = [
    "entity_key",
    "entity_words",
    "segment_id",
    "fact_id",
    "words_of_entities",
]
"""The indexes that `SCHEMA` creates; a uniqueness constraint has an index of its name."""

INDEX_STATES = """
SHOW INDEXES YIELD name, state WHERE name IN $given.names
RETURN name, state
"""

# ---------------------------------------------------------------- writing

REFERENCED = """
CALL () {
    UNWIND $given.segments AS row
    MATCH (:Segment {tenant: row.tenant, id: row.id})-[:MENTIONS|IS]->(node:Entity)
    RETURN node
  UNION
    UNWIND $given.facts AS row
    MATCH (:Fact {tenant: row.tenant, id: row.id})-[:SUBJECT|OBJECT|EVIDENCE]->(node)
    RETURN node
}
RETURN collect(elementId(node)) AS referenced
"""
"""The nodes that the changed items reference before the change."""

DELETE_UNREFERENCED = """
UNWIND $given.referenced AS id
MATCH (node) WHERE elementId(node) = id
  AND NOT EXISTS { (node)<-[:MENTIONS|IS|SUBJECT|OBJECT|EVIDENCE]-() }
  AND (node:Entity OR node.event_time IS NULL)
DELETE node
"""
"""Deletes nodes that nothing references: entities, and segments that were only cited."""

REMOVE_SEGMENTS = """
UNWIND $given.rows AS row
MATCH (segment:Segment {tenant: row.tenant, id: row.id})
DETACH DELETE segment
"""

REMOVE_FACTS = """
UNWIND $given.rows AS row
MATCH (fact:Fact {tenant: row.tenant, id: row.id})
DETACH DELETE fact
"""

_MERGE_ENTITY = """
MERGE (entity:Entity {tenant: row.tenant, key: named.key})
  ON CREATE SET entity.name = named.name, entity.words = named.words,
                entity.tenant_token = row.tenant_token
"""

WRITE_SEGMENTS = f"""
UNWIND $given.rows AS row
MERGE (segment:Segment {{tenant: row.tenant, id: row.id}})
SET segment = row.properties
WITH segment, row
CALL (segment, row) {{
    MATCH (segment)-[stale:MENTIONS]->(entity)
    WHERE NOT entity.key IN [named IN row.mentions | named.key]
    DELETE stale
}}
CALL (segment, row) {{
    MATCH (segment)-[stale:IS]->(entity)
    WHERE NOT entity.key IN [named IN row.is | named.key]
    DELETE stale
}}
CALL (segment, row) {{
    UNWIND row.mentions AS named {_MERGE_ENTITY}
    MERGE (segment)-[:MENTIONS]->(entity)
}}
CALL (segment, row) {{
    UNWIND row.is AS named {_MERGE_ENTITY}
    MERGE (segment)-[:IS]->(entity)
}}
"""

WRITE_FACTS = f"""
UNWIND $given.rows AS row
MERGE (fact:Fact {{tenant: row.tenant, id: row.id}})
SET fact = row.properties
WITH fact, row
CALL (fact, row) {{
    MATCH (fact)-[stale:SUBJECT]->(entity) WHERE entity.key <> row.subject.key DELETE stale
}}
CALL (fact, row) {{
    MATCH (fact)-[stale:OBJECT]->(entity) WHERE entity.key <> row.object.key DELETE stale
}}
CALL (fact, row) {{
    MATCH (fact)-[stale:EVIDENCE]->(segment) WHERE NOT segment.id IN row.evidence DELETE stale
}}
CALL (fact, row) {{
    WITH fact, row, row.subject AS named {_MERGE_ENTITY}
    MERGE (fact)-[:SUBJECT]->(entity)
}}
CALL (fact, row) {{
    WITH fact, row, row.object AS named {_MERGE_ENTITY}
    MERGE (fact)-[:OBJECT]->(entity)
}}
CALL (fact, row) {{
    UNWIND row.evidence AS id
    MERGE (segment:Segment {{tenant: row.tenant, id: id}})
    MERGE (fact)-[:EVIDENCE]->(segment)
}}
"""

# ---------------------------------------------------------------- counting

COUNT_ITEMS = """
RETURN COUNT {
    UNWIND $given.segments AS id
    MATCH (segment:Segment {tenant: $given.tenant, id: id}) WHERE segment.event_time IS NOT NULL
    RETURN segment
} + COUNT {
    UNWIND $given.facts AS id
    MATCH (fact:Fact {tenant: $given.tenant, id: id})
    RETURN fact
} AS count
"""

COUNT_ENTITIES = """
MATCH (entity:Entity {tenant: $given.tenant}) WHERE entity.key IS NOT NULL
RETURN count(entity) AS count
"""
