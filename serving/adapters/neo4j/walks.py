"""The Cypher of the searches: near matches of names, and the walks from entities.

The default walk starts at the entities that a question names, follows every relation for two hops
and sums the activation that arrives. Its statements (`FIND_SEGMENTS`, `FIND_FACTS`) have no clause
that only other walks need. A custom walk (`FOLLOW_TO_...`) sets its start, relations, direction or
hops. A walk by distance (`NEAREST_...`) ranks by the number of hops instead of activation.

Planning a search takes 0.1 to 0.5 s, and seconds while the JVM is cold. All searches are therefore
planned ahead, the default ones before the graph is ready and the custom ones after. They keep their
first plan (`replan=skip`), since they start at indexes whatever the graph contains.
"""

from __future__ import annotations

from serving.adapters.neo4j.filters import OF_TENANT, VISIBLE, fact_passes, followed, held
from serving.domain.ranking.walk import NESTED_NAME

NEAR_NAMES = """
CALL db.index.fulltext.queryNodes('words_of_entities', $given.lucene, {limit: 50})
YIELD node AS entity
RETURN collect(DISTINCT entity.words) AS names
"""
"""The query contains the tenant's token. A name of another tenant would find nothing: the walk
looks it up within its own tenant."""

# ---------------------------------------------------------------- where to start


def _weighed(more: str = "") -> str:
    """Makes `seeds` of names; a name within a longer matched name weighs a quarter."""
    return f"""WITH named[..$given.seeds] AS named
WITH [name IN named | [
    name[0], name[4],
    CASE WHEN any(other IN named WHERE other[2] <= name[2] AND name[3] <= other[3]
                                   AND other[3] - other[2] > name[3] - name[2])
         THEN {NESTED_NAME} * name[1] ELSE name[1] END{more}]] AS seeds
"""


# The tenant is part of the key, so every walk starts within the tenant; each node that it reaches
# is tested for the tenant again.
_SEEDS = f"""CYPHER replan=skip
UNWIND $given.spans AS span
MATCH (entity:Entity {{tenant: $given.tenant, words: span[0]}})
WITH collect([entity, span[1], span[2], span[3], COUNT {{ (entity)<-[:MENTIONS]-() }}]) AS named
{_weighed()}"""

# Names come first, then what the segments are, in their order and with equal weights, or mention;
# with 1, 1/2, 1/3, since few of what other legs found answer the question, and the first do.
# An entity that a single segment brings has its id as `owner`: it must not lead back to that one.
_CUSTOM_SEEDS = f"""CYPHER replan=skip
CALL () {{
    UNWIND $given.spans AS span
    MATCH (entity:Entity {{tenant: $given.tenant, words: span[0]}})
    RETURN entity, span, -1 AS place, null AS bringer
  UNION ALL
    UNWIND range(0, size($given.segments) - 1) AS place
    MATCH (segment:Segment {{tenant: $given.tenant, id: $given.segments[place]}})
          -[link:IS|MENTIONS]->(entity:Entity)
    WHERE entity.tenant = $given.tenant AND ($given.mentions OR type(link) = 'IS')
    RETURN entity, [entity.key, CASE WHEN $given.mentions THEN 1.0 / (place + 1) ELSE 1.0 END,
                    -1, -1] AS span, place, segment.id AS bringer
}}
WITH entity, span, place, bringer ORDER BY place, span[1] DESC
WITH entity, head(collect(span)) AS span, min(place) AS place, collect(DISTINCT bringer) AS bringers
WITH entity, span, place, CASE WHEN $given.mentions AND place >= 0 AND size(bringers) = 1
                               THEN bringers[0] END AS owner
ORDER BY place, span[1] DESC
WITH collect([entity, span[1], span[2], span[3], COUNT {{ (entity)<-[:MENTIONS]-() }},
              owner]) AS named
{_weighed(", name[5]")}"""

# ---------------------------------------------------------------- by activation


def _walks(*, custom: bool) -> str:
    """The facts from a seed and the entities that they lead to, as `walks`.

    An entity spreads its activation over its facts, as over its mentions: each receives it divided
    by the square root of their number.
    """
    accepted = followed("leaving", "first", "middle") if custom else held("first")
    return f"""
        WITH seed, activation / sqrt(COUNT {{ (seed)<-[:SUBJECT|OBJECT]-() }}) AS spread
        MATCH (seed)<-[leaving:SUBJECT|OBJECT]-(first)-[:SUBJECT|OBJECT]->(middle)
        WHERE middle <> seed AND {accepted}
        WITH seed, spread * first.weight AS share, leaving, first, middle
        LIMIT $given.facts_per_seed
        WITH seed, collect([share, leaving, first, middle]) AS walks
"""


def _second_hop(*, custom: bool) -> str:
    accepted = followed("onward", "second", "end") if custom else held("second")
    as_far = " AND $given.hops > 1" if custom else ""
    return f"""
            UNWIND walks AS walk
            WITH seed, walk, walk[0] AS share, walk[2] AS first, walk[3] AS middle
            WITH *, COUNT {{ (middle)<-[:SUBJECT|OBJECT]-() }} AS facts WHERE facts > 1{as_far}
            CALL (seed, share, first, middle, facts) {{
                MATCH (middle)<-[onward:SUBJECT|OBJECT]-(second)-[:SUBJECT|OBJECT]->(end)
                WHERE second <> first AND end <> middle AND end <> seed AND {accepted}
                RETURN $given.hop_decay * share * second.weight / sqrt(facts) AS handed,
                       onward, second, end
                LIMIT $given.facts_per_entity
            }}
"""


# The columns of a contribution without a second hop, or without any hop.
_ONE_HOP = "null AS onward, null AS second, null AS end"
_NO_HOP = f"[] AS walk, {_ONE_HOP}, false AS cited"

# A trail records how a contribution arose; only the trails of the best items are returned.
_TRAIL = "[gain, seed, walk[1], walk[2], walk[3], onward, second, end, cited]"
_WRITTEN_TRAILS = """[trail IN trails[..$given.trails] | [
        trail[0], trail[1].name,
        trail[3].id, trail[3].relation, type(trail[2]), trail[4].name,
        trail[6].id, trail[6].relation, type(trail[5]), trail[7].name,
        trail[8]]]"""


def _best(item: str, tie: str = "0") -> str:
    """Orders the items and returns the best in one record, which is the cheapest to receive.

    Scores are compared as whole billionths: sums of floats in another order differ in their last
    bits and would break ties at random. Equal scores are ordered by `tie`, then by id.
    """
    return f"""
    WITH {item}, toInteger(round(1e9 * score)) AS score, trails, {tie} AS tie
    ORDER BY score DESC, tie, {item}.id LIMIT $given.depth
    RETURN collect([{item}.id, score, {_WRITTEN_TRAILS}]) AS found
}}
RETURN size(seeds) AS seeds, found"""


# A seed segment is found only from another seed.
_FROM_ANOTHER = """
        WITH * WHERE ($given.by_name OR NOT EXISTS { (segment)-[:IS]->(seed) })
                 AND (owner IS NULL OR owner <> segment.id)"""


def _find_segments(*, custom: bool) -> str:
    """The segments that the walk reaches.

    An entity with more mentions than the fan-out is a hub. It contributes only that many segments,
    usually the newest, and its activation to those segments of other entities that mention it. Its
    cost is therefore bounded, and segments found by other entities lose nothing.
    """
    others = " WHERE $given.by_name OR NOT (segment)-[:IS]->(named)" if custom else ""
    owner = ", row[3] AS owner" if custom else ""
    another = " AND (hub[3] IS NULL OR hub[3] <> segment.id)" if custom else ""
    return f"""{_CUSTOM_SEEDS if custom else _SEEDS}
CALL (seeds) {{
    CALL (seeds) {{
        UNWIND seeds AS row
        WITH row[0] AS seed, row[1] AS mentions, row[2] AS activation{owner}
        CALL (seed, mentions, activation) {{
            MATCH (seed)<-[:MENTIONS]-(segment) WHERE {VISIBLE}
            WITH segment, mentions > $given.fan_out AS hub, mentions, activation
            LIMIT $given.fan_out
            RETURN segment, CASE WHEN hub THEN 0.0 ELSE activation / sqrt(mentions) END AS gain,
                   {_NO_HOP}
          UNION ALL
            MATCH (seed)<-[:IS]-(segment) WHERE {VISIBLE}
            RETURN segment, activation AS gain, {_NO_HOP} LIMIT $given.fan_out
          UNION ALL
{_walks(custom=custom)}
            CALL (seed, walks) {{
                UNWIND walks AS walk
                WITH walk, walk[2] AS first
                MATCH (first)-[:EVIDENCE]->(segment) WHERE {VISIBLE}
                RETURN segment, walk[0] AS gain, walk, {_ONE_HOP}, true AS cited LIMIT $given.rows
              UNION ALL
                UNWIND walks AS walk
                WITH walk, walk[3] AS middle
                MATCH (middle)<-[:IS]-(segment) WHERE {VISIBLE}
                RETURN segment, walk[0] AS gain, walk, {_ONE_HOP}, false AS cited LIMIT $given.rows
              UNION ALL
                UNWIND walks AS walk
                WITH walk, walk[3] AS middle
                WITH walk, middle, COUNT {{ (middle)<-[:MENTIONS]-() }} AS mentions
                WHERE 0 < mentions <= $given.reached_mentions
                MATCH (middle)<-[:MENTIONS]-(segment) WHERE {VISIBLE}
                RETURN segment, $given.hop_decay * walk[0] / sqrt(mentions) AS gain, walk,
                       {_ONE_HOP}, false AS cited LIMIT $given.rows
              UNION ALL
{_second_hop(custom=custom)}
                CALL (second, end) {{
                    MATCH (second)-[:EVIDENCE]->(segment) WHERE {VISIBLE}
                    RETURN segment, true AS cited
                  UNION ALL
                    MATCH (end)<-[:IS]-(segment) WHERE {VISIBLE}
                    RETURN segment, false AS cited
                }}
                RETURN segment, handed AS gain, walk, onward, second, end, cited
                LIMIT $given.rows
            }}
            RETURN segment, gain, walk, onward, second, end, cited
        }}{_FROM_ANOTHER if custom else ""}
        WITH segment, gain, seed, walk, onward, second, end, cited LIMIT $given.rows
        RETURN segment, sum(gain) AS walked, collect({_TRAIL}) AS trails
    }}
    WITH segment, walked, trails, [row IN seeds WHERE row[1] > $given.fan_out] AS hubs,
         [(segment)-[:MENTIONS]->(named){others} | named] AS names
    WITH segment, trails, reduce(
        score = walked, hub IN hubs |
        score + CASE WHEN hub[0] IN names{another} THEN hub[2] / sqrt(hub[1]) ELSE 0.0 END) AS score
    WHERE segment.tenant = $given.tenant
{_best("segment")}"""


def _find_facts(*, custom: bool) -> str:
    """The facts that the walk passes over."""
    passes = fact_passes(OF_TENANT) if custom else fact_passes()
    return f"""{_CUSTOM_SEEDS if custom else _SEEDS}
CALL (seeds) {{
    CALL (seeds) {{
        UNWIND seeds AS row
        WITH row[0] AS seed, row[2] AS activation
        CALL (seed, activation) {{
{_walks(custom=custom)}
            CALL (seed, walks) {{
                UNWIND walks AS walk
                WITH walk, walk[2] AS fact WHERE {passes}
                RETURN fact, walk[0] AS gain, walk, {_ONE_HOP}
              UNION ALL
{_second_hop(custom=custom)}
                WITH second AS fact, handed, walk, onward, second, end WHERE {passes}
                RETURN fact, handed AS gain, walk, onward, second, end LIMIT $given.rows
            }}
            RETURN fact, gain, walk, onward, second, end
        }}
        WITH fact, gain, seed, walk, onward, second, end, false AS cited LIMIT $given.rows
        RETURN fact, sum(gain) AS score, collect({_TRAIL}) AS trails
    }}
{_best("fact")}"""


# ---------------------------------------------------------------- by distance


def _nearness(hops: int, fact: str) -> str:
    """The score of an item at a number of hops, reached over `fact`."""
    return f"1.0 / ({hops} + coalesce($given.places[toLower({fact}.relation)], 0.0))"


def _representing(fact: str, entity: str) -> str:
    """The segments at the end of a step: what the entity is, or else the evidence of the fact."""
    return f"""
            CALL (seed, {fact}, {entity}) {{
                MATCH ({entity})<-[:IS]-({OF_TENANT}) WHERE {VISIBLE}
                RETURN segment, false AS cited
              UNION ALL
                WITH seed, {fact}, {entity}
                WHERE NOT EXISTS {{ ({entity})<-[:IS]-(:Segment {{tenant: $given.tenant}}) }}
                MATCH ({fact})-[:EVIDENCE]->({OF_TENANT})
                WHERE {VISIBLE} AND NOT EXISTS {{ (segment)-[:IS]->(seed) }}
                RETURN segment, true AS cited
            }}
"""


# Hop by hop over all seeds, so that near items come before the limit on rows is reached.
_FIRST_STEPS = f"""
        UNWIND range(0, size(seeds) - 1) AS place
        WITH place, seeds[place][0] AS seed
        CALL (seed) {{
            MATCH (seed)<-[leaving:SUBJECT|OBJECT]-(first)-[:SUBJECT|OBJECT]->(middle)
            WHERE middle <> seed AND {followed("leaving", "first", "middle")}
            RETURN leaving, first, middle LIMIT $given.facts_per_seed
        }}
        WITH collect([seed, leaving, first, middle, place]) AS walks
"""
_SECOND_STEPS = f"""
            UNWIND walks AS walk
            WITH walk, walk[0] AS seed, walk[2] AS first, walk[3] AS middle WHERE $given.hops > 1
            CALL (seed, first, middle) {{
                MATCH (middle)<-[onward:SUBJECT|OBJECT]-(second)-[:SUBJECT|OBJECT]->(end)
                WHERE second <> first AND end <> middle AND end <> seed
                  AND {followed("onward", "second", "end")}
                RETURN onward, second, end LIMIT $given.facts_per_entity
            }}
"""


def _by_distance(item: str, near: str, far: str) -> str:
    """Orders items by their shortest path, and equally near ones by the order of their seeds.

    `near` converts `first` and `middle` to items, `far` converts `second` and `end`; each returns
    whether the item was `cited`.
    """
    return f"""{_CUSTOM_SEEDS}
CALL (seeds) {{
    CALL (seeds) {{
{_FIRST_STEPS}
        CALL (walks) {{
            UNWIND walks AS walk
            WITH walk, walk[0] AS seed, walk[2] AS first, walk[3] AS middle
{near}
            RETURN {item}, {_nearness(1, "first")} AS gain, seed, walk, {_ONE_HOP}, cited
            LIMIT $given.rows
          UNION ALL
{_SECOND_STEPS}
{far}
            RETURN {item}, {_nearness(2, "second")} AS gain, seed, walk, onward, second, end, cited
            LIMIT $given.rows
        }}
        WITH * ORDER BY gain DESC, walk[4], walk[2].id, second.id
        RETURN {item}, max(gain) AS score, collect({_TRAIL}) AS trails,
               head(collect(CASE WHEN $given.by_name THEN 0 ELSE walk[4] END)) AS seed_place
    }}
{_best(item, "seed_place")}"""


# ---------------------------------------------------------------- by shared mentions

# Scores are whole billionths: sums of floats in another order differ in their last bits and would
# break ties at random.
RELATED_SEGMENTS = f"""CYPHER replan=skip
UNWIND range(0, size($given.segments) - 1) AS place
MATCH (seed:Segment {{tenant: $given.tenant, id: $given.segments[place]}})
      -[:MENTIONS]->(entity:Entity)
WITH place, seed, entity, COUNT {{ (entity)<-[:MENTIONS]-() }} AS mentions,
     split(entity.words, ' ') AS words
WHERE 1 < mentions <= $given.most_mentions
  AND size([word IN words WHERE word IN $given.asked]) < $given.named_share * size(words)
CALL (seed, entity) {{
    MATCH (entity)<-[:MENTIONS]-(segment)
    WHERE segment <> seed AND segment.tenant = $given.tenant AND {VISIBLE}
    RETURN segment
}}
WITH segment, toInteger(1e9 / ((place + 2) * mentions)) AS gain, entity
ORDER BY gain DESC, entity.key
WITH segment, sum(gain) AS score, collect(DISTINCT entity.name)[..$given.names] AS names
ORDER BY score DESC, segment.id LIMIT $given.depth
RETURN collect([segment.id, score, names]) AS found
"""

# ---------------------------------------------------------------- all searches

FIND_SEGMENTS = _find_segments(custom=False)
FIND_FACTS = _find_facts(custom=False)
FOLLOW_TO_SEGMENTS = _find_segments(custom=True)
FOLLOW_TO_FACTS = _find_facts(custom=True)
NEAREST_SEGMENTS = _by_distance(
    "segment", _representing("first", "middle"), _representing("second", "end")
)
NEAREST_FACTS = _by_distance(
    "fact",
    f"            WITH *, first AS fact, false AS cited WHERE {fact_passes(OF_TENANT)}",
    f"            WITH *, second AS fact, false AS cited WHERE {fact_passes(OF_TENANT)}",
)

DEFAULT = (FIND_SEGMENTS, FIND_FACTS)
"""The searches of the default walk."""

CUSTOM = (FOLLOW_TO_SEGMENTS, FOLLOW_TO_FACTS, NEAREST_SEGMENTS, NEAREST_FACTS)
"""The searches of walks that a profile customises."""
