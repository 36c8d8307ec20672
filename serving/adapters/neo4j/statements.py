"""The Cypher of the graph, and the model it speaks of.

The model: `(:Segment)-[:MENTIONS]->(:Entity)` for what it names and who said it,
`(:Segment)-[:IS]->(:Entity)` for what it is, and a fact as a node between its ends,
`(:Fact)-[:SUBJECT|OBJECT]->(:Entity)`, with `(:Fact)-[:EVIDENCE]->(:Segment)`. A node
rather than a relationship, since it needs an id that is unique, ends that may
move, and links to its evidence that need no look-up. A segment that facts cite
and nobody has written yet is a bare node without `event_time`.

Times are microseconds since 1970, which compare faster than Neo4j's own.

Planning a search takes 0.1 to 0.5 s, and seconds while the JVM is cold. So each
statement has all its values in the one parameter `given`, a map: plans are kept per
type of parameter, where lists and strings of another order of length count as
another type, but maps are all alike. And searches keep their first plan
(`replan=skip`), since whatever the graph holds they start at the index of names.
"""

from __future__ import annotations

SCHEMA = (
    "CREATE CONSTRAINT entity_key IF NOT EXISTS "
    "FOR (entity:Entity) REQUIRE (entity.tenant, entity.key) IS UNIQUE",
    "CREATE CONSTRAINT segment_id IF NOT EXISTS "
    "FOR (segment:Segment) REQUIRE (segment.tenant, segment.id) IS UNIQUE",
    "CREATE CONSTRAINT fact_id IF NOT EXISTS "
    "FOR (fact:Fact) REQUIRE (fact.tenant, fact.id) IS UNIQUE",
    # The tenant is in the index, so that it is applied before the limit. The analyzer splits
    # at what is no letter or digit and drops no word, like `content_words`.
    "CREATE FULLTEXT INDEX entity_names IF NOT EXISTS "
    "FOR (entity:Entity) ON EACH [entity.key, entity.tenant_token] "
    "OPTIONS {indexConfig: {`fulltext.analyzer`: 'standard-no-stop-words'}}",
    "CALL db.awaitIndexes(300)",
)

# ---------------------------------------------------------------- writing

TOUCHED = """
CALL () {
    UNWIND $given.segments AS row
    MATCH (:Segment {tenant: row.tenant, id: row.id})-[:MENTIONS|IS]->(node:Entity)
    RETURN node
  UNION
    UNWIND $given.facts AS row
    MATCH (:Fact {tenant: row.tenant, id: row.id})-[:SUBJECT|OBJECT|EVIDENCE]->(node)
    RETURN node
}
RETURN collect(elementId(node)) AS touched
"""
"""What the changed items refer to before the change, some of it perhaps for the last time."""

TIDY = """
UNWIND $given.touched AS id
MATCH (node) WHERE elementId(node) = id
  AND NOT EXISTS { (node)<-[:MENTIONS|IS|SUBJECT|OBJECT|EVIDENCE]-() }
  AND (node:Entity OR node.event_time IS NULL)
DELETE node
"""
"""Deletes what nothing refers to any more: entities, and segments that were only cited."""

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
  ON CREATE SET entity.name = named.name, entity.tenant_token = row.tenant_token
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

# ---------------------------------------------------------------- searching

NEAR_NAMES = """
CALL db.index.fulltext.queryNodes('entity_names', $given.lucene, {limit: 50})
YIELD node AS entity
RETURN collect(entity.key) AS keys
"""
"""The tenant is in the query, by its token; and with a key from elsewhere nothing would be found,
since the walk looks it up within the tenant."""


def _held(fact: str) -> str:
    """Whether a fact, which must be the tenant's, holds at `as_of` as far as was known then."""
    return f"""{fact}.tenant = $given.tenant
      AND coalesce({fact}.valid_from, $given.as_of) <= $given.as_of
      AND coalesce({fact}.valid_to, $given.latest) > $given.as_of
      AND coalesce({fact}.retracted_at, $given.latest) > $given.as_of"""


# All of a filter but its range of event times, which facts test against their validity.
_ACCEPTED = """segment.importance >= $given.min_importance
      AND all(terms IN $given.term_groups WHERE any(term IN terms WHERE term IN segment.terms))
      AND $given.created_from <= coalesce(segment.created_at, $given.created_from)
      AND coalesce(segment.created_at, $given.earliest) < $given.created_to
      AND $given.updated_from <= coalesce(segment.updated_at, $given.updated_from)
      AND coalesce(segment.updated_at, $given.earliest) < $given.updated_to"""


def _if_given(filter_: str, condition: str) -> str:
    """The condition where that part of the filter restricts.

    As a CASE, since the planner rewrites a disjunction into as many clauses as
    it can, and takes twice as long.
    """
    return f"CASE WHEN $given.{filter_} THEN {condition} ELSE true END"


# A cited segment that nobody has written has no event_time, and so is never visible.
_SAID = "segment.event_time <= $given.as_of"
_IN_RANGE = "$given.event_from <= segment.event_time AND segment.event_time < $given.event_to"
_VISIBLE = f"{_SAID} AND {_if_given('filtered', f'{_IN_RANGE} AND {_ACCEPTED}')}"

_OVERLAPS = """coalesce(fact.valid_from, $given.earliest) < $given.event_to
      AND coalesce(fact.valid_to, $given.latest) > $given.event_from"""
_RESTS_ON_ACCEPTED = f"""EXISTS {{
        (fact)-[:EVIDENCE]->(segment) WHERE {_SAID} AND {_ACCEPTED} }}"""
_PASSES = f"{_OVERLAPS} AND {_if_given('evidence_filtered', _RESTS_ON_ACCEPTED)}"

# The tenant is part of the key, so every walk starts within it; whatever it meets is asked for
# its tenant again. A name within a longer one that was found too counts a quarter.
_SEEDS = """CYPHER replan=skip
UNWIND $given.spans AS span
MATCH (entity:Entity {tenant: $given.tenant, key: span[0]})
WITH collect([entity, span[1], span[2], span[3], COUNT { (entity)<-[:MENTIONS]-() }]) AS named
WITH named[..$given.seeds] AS named
WITH [name IN named | [
    name[0], name[4],
    CASE WHEN any(other IN named WHERE other[2] <= name[2] AND name[3] <= other[3]
                                   AND other[3] - other[2] > name[3] - name[2])
         THEN 0.25 * name[1] ELSE name[1] END]] AS seeds
"""

# What an entity hands on is spread over its facts, as over its mentions: each gets it divided
# by the root of their number. `walks` are the facts from the seed and what they lead to.
_WALKS = f"""
        WITH seed, activation / sqrt(COUNT {{ (seed)<-[:SUBJECT|OBJECT]-() }}) AS spread
        MATCH (seed)<-[leaving:SUBJECT|OBJECT]-(first)-[:SUBJECT|OBJECT]->(middle)
        WHERE middle <> seed AND {_held("first")}
        WITH seed, spread * first.weight AS share, leaving, first, middle
        LIMIT $given.facts_per_seed
        WITH seed, collect([share, leaving, first, middle]) AS walks
"""

_SECOND_HOP = f"""
            UNWIND walks AS walk
            WITH seed, walk, walk[0] AS share, walk[2] AS first, walk[3] AS middle
            WITH *, COUNT {{ (middle)<-[:SUBJECT|OBJECT]-() }} AS facts WHERE facts > 1
            CALL (seed, share, first, middle, facts) {{
                MATCH (middle)<-[onward:SUBJECT|OBJECT]-(second)-[:SUBJECT|OBJECT]->(end)
                WHERE second <> first AND end <> middle AND end <> seed AND {_held("second")}
                RETURN $given.hop_decay * share * second.weight / sqrt(facts) AS handed,
                       onward, second, end
                LIMIT $given.facts_per_entity
            }}
"""

# The columns of a contribution that came without a second hop, or without any.
_ONE_HOP = "null AS onward, null AS second, null AS end"
_NO_HOP = f"[] AS walk, {_ONE_HOP}, false AS cited"

# A trail is how one contribution came about; only those of the best items are written out.
_TRAIL = "[gain, seed, walk[1], walk[2], walk[3], onward, second, end, cited]"
_WRITTEN_TRAILS = """[trail IN trails[..$given.trails] | [
        trail[0], trail[1].name,
        trail[3].id, trail[3].relation, type(trail[2]), trail[4].name,
        trail[6].id, trail[6].relation, type(trail[5]), trail[7].name,
        trail[8]]]"""


def _best(item: str) -> str:
    """Orders what was found and returns the best in one record, the cheapest to receive.

    Scores are compared as whole billionths, since sums of floats in another
    order differ in their last bits and would break ties at random.
    """
    return f"""
    WITH {item}, toInteger(1e9 * score) AS score, trails
    ORDER BY score DESC, {item}.id LIMIT $given.depth
    RETURN collect([{item}.id, score, {_WRITTEN_TRAILS}]) AS found
}}
RETURN size(seeds) AS seeds, found"""


FIND_SEGMENTS = f"""{_SEEDS}
CALL (seeds) {{
    CALL (seeds) {{
        UNWIND seeds AS row
        WITH row[0] AS seed, row[1] AS mentions, row[2] AS activation
        CALL (seed, mentions, activation) {{
            MATCH (seed)<-[:MENTIONS]-(segment) WHERE {_VISIBLE}
            WITH segment, mentions > $given.fan_out AS hub, mentions, activation
            LIMIT $given.fan_out
            RETURN segment, CASE WHEN hub THEN 0.0 ELSE activation / sqrt(mentions) END AS gain,
                   {_NO_HOP}
          UNION ALL
            MATCH (seed)<-[:IS]-(segment) WHERE {_VISIBLE}
            RETURN segment, activation AS gain, {_NO_HOP} LIMIT $given.fan_out
          UNION ALL
{_WALKS}
            CALL (seed, walks) {{
                UNWIND walks AS walk
                WITH walk, walk[2] AS first
                MATCH (first)-[:EVIDENCE]->(segment) WHERE {_VISIBLE}
                RETURN segment, walk[0] AS gain, walk, {_ONE_HOP}, true AS cited LIMIT $given.rows
              UNION ALL
                UNWIND walks AS walk
                WITH walk, walk[3] AS middle
                MATCH (middle)<-[:IS]-(segment) WHERE {_VISIBLE}
                RETURN segment, walk[0] AS gain, walk, {_ONE_HOP}, false AS cited LIMIT $given.rows
              UNION ALL
                UNWIND walks AS walk
                WITH walk, walk[3] AS middle
                WITH walk, middle, COUNT {{ (middle)<-[:MENTIONS]-() }} AS mentions
                WHERE 0 < mentions <= $given.reached_mentions
                MATCH (middle)<-[:MENTIONS]-(segment) WHERE {_VISIBLE}
                RETURN segment, $given.hop_decay * walk[0] / sqrt(mentions) AS gain, walk,
                       {_ONE_HOP}, false AS cited LIMIT $given.rows
              UNION ALL
{_SECOND_HOP}
                CALL (second, end) {{
                    MATCH (second)-[:EVIDENCE]->(segment) WHERE {_VISIBLE}
                    RETURN segment, true AS cited
                  UNION ALL
                    MATCH (end)<-[:IS]-(segment) WHERE {_VISIBLE}
                    RETURN segment, false AS cited
                }}
                RETURN segment, handed AS gain, walk, onward, second, end, cited
                LIMIT $given.rows
            }}
            RETURN segment, gain, walk, onward, second, end, cited
        }}
        WITH segment, gain, seed, walk, onward, second, end, cited LIMIT $given.rows
        RETURN segment, sum(gain) AS walked, collect({_TRAIL}) AS trails
    }}
    WITH segment, walked, trails, [row IN seeds WHERE row[1] > $given.fan_out] AS hubs,
         [(segment)-[:MENTIONS]->(named) | named] AS names
    WITH segment, trails, reduce(
        score = walked, hub IN hubs |
        score + CASE WHEN hub[0] IN names THEN hub[2] / sqrt(hub[1]) ELSE 0.0 END) AS score
    WHERE segment.tenant = $given.tenant
{_best("segment")}"""
"""The segments that the walk meets.

An entity with more mentions than the fan-out is a hub: it brings only as many, the
newest as a rule, and is otherwise asked whether it is mentioned by what the rest
brought. So its cost is bounded, and nothing is lost of what it says about them.
"""

FIND_FACTS = f"""{_SEEDS}
CALL (seeds) {{
    CALL (seeds) {{
        UNWIND seeds AS row
        WITH row[0] AS seed, row[2] AS activation
        CALL (seed, activation) {{
{_WALKS}
            CALL (seed, walks) {{
                UNWIND walks AS walk
                WITH walk, walk[2] AS fact WHERE {_PASSES}
                RETURN fact, walk[0] AS gain, walk, {_ONE_HOP}
              UNION ALL
{_SECOND_HOP}
                WITH second AS fact, handed, walk, onward, second, end WHERE {_PASSES}
                RETURN fact, handed AS gain, walk, onward, second, end LIMIT $given.rows
            }}
            RETURN fact, gain, walk, onward, second, end
        }}
        WITH fact, gain, seed, walk, onward, second, end, false AS cited LIMIT $given.rows
        RETURN fact, sum(gain) AS score, collect({_TRAIL}) AS trails
    }}
{_best("fact")}"""
"""The facts that the walk passes."""

SEARCHES = (FIND_SEGMENTS, FIND_FACTS)
