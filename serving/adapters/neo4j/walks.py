"""The Cypher of the searches: what names an entity nearly, and the walks from entities.

The usual walk starts at the entities that a question names, follows every relation
for two hops, and adds up what arrives; it has statements of its own
(`FIND_SEGMENTS`, `FIND_FACTS`), without a clause that only the others need. One that
is told where to start, what to follow or how far (`FOLLOW_TO_...`) differs by just that. And one by
distance (`NEAREST_...`) asks how far away things are rather than how much arrives.

Planning a search takes 0.1 to 0.5 s, and seconds while the JVM is cold. So all are
planned ahead, the usual ones before the graph is ready and the others after, and keep their
first plan (`replan=skip`), since whatever the graph holds they start at its indexes.
"""

from __future__ import annotations

NEAR_NAMES = """
CALL db.index.fulltext.queryNodes('entity_names', $given.lucene, {limit: 50})
YIELD node AS entity
RETURN collect(entity.key) AS keys
"""
"""The tenant is in the query, by its token; and with a key from elsewhere nothing would be found,
since the walk looks it up within the tenant."""

# ---------------------------------------------------------------- what may be met


def _if_given(asked: str, condition: str) -> str:
    """The condition where the question asks for that; whatever else is not read.

    As a CASE, since the planner rewrites a disjunction into as many clauses as
    it can, and takes twice as long.
    """
    return f"CASE WHEN $given.{asked} THEN {condition} ELSE true END"


def _end(fact: str) -> str:
    """When the truth of a fact ended, as far as was known; few facts have closings to read.

    What was projected by a former version has none, and the end as it is known for good.
    """
    stated = f"coalesce({fact}.valid_to, $given.latest)"
    return f"""CASE WHEN {fact}.closed_at IS NULL THEN {stated}
      ELSE reduce(ended = {stated}, n IN range(0, size({fact}.closed_at) - 1) |
        CASE WHEN {fact}.closed_at[n] < ended
              AND {fact}.closing_recorded_at[n] <= $given.recorded_by
              AND {fact}.closing_retracted_at[n] > $given.retracted_by
             THEN {fact}.closed_at[n] ELSE ended END) END"""


def _held(fact: str) -> str:
    """Whether a fact, which must be the tenant's, holds at `as_of` as far as was known."""
    recorded = f"coalesce({fact}.recorded_at, $given.earliest) <= $given.recorded_by"
    return f"""{fact}.tenant = $given.tenant
      AND coalesce({fact}.valid_from, $given.as_of) <= $given.as_of
      AND {_end(fact)} > $given.as_of
      AND coalesce({fact}.retracted_at, $given.latest) > $given.retracted_by
      AND {_if_given("as_known", recorded)}"""


# All of a filter but its range of event times, which facts test against their validity.
_ACCEPTED = """segment.importance >= $given.min_importance
      AND all(terms IN $given.term_groups WHERE any(term IN terms WHERE term IN segment.terms))
      AND $given.created_from <= coalesce(segment.created_at, $given.created_from)
      AND coalesce(segment.created_at, $given.earliest) < $given.created_to
      AND $given.updated_from <= coalesce(segment.updated_at, $given.updated_from)
      AND coalesce(segment.updated_at, $given.earliest) < $given.updated_to"""


# A cited segment that nobody has written has no event_time, and so is never visible.
_SAID = "segment.event_time <= $given.as_of"
_IN_RANGE = "$given.event_from <= segment.event_time AND segment.event_time < $given.event_to"
VISIBLE = f"{_SAID} AND {_if_given('filtered', f'{_IN_RANGE} AND {_ACCEPTED}')}"

_OVERLAPS = f"""coalesce(fact.valid_from, $given.earliest) < $given.event_to
      AND {_end("fact")} > $given.event_from"""


def _passes(evidence: str = "segment") -> str:
    """Whether a fact passes the filter: it by its time, else a segment of its evidence."""
    rests_on_accepted = f"""EXISTS {{
        (fact)-[:EVIDENCE]->({evidence}) WHERE {_SAID} AND {_ACCEPTED} }}"""
    return (
        f"{_if_given('timed', _OVERLAPS)} AND {_if_given('evidence_filtered', rests_on_accepted)}"
    )


def _followed(link: str, fact: str, entity: str) -> str:
    """Whether a walk that is told what to follow goes by a link over a fact to an entity."""
    told = f"$given.places[toLower({fact}.relation)] IS NOT NULL"
    return f"""{_held(fact)} AND {entity}.tenant = $given.tenant
      AND type({link}) IN $given.links AND {_if_given("selective", told)}"""


_OURS = "segment:Segment {tenant: $given.tenant}"

# ---------------------------------------------------------------- where to start

# A name within a longer one that was found too counts a quarter.
_WEIGHED = """WITH named[..$given.seeds] AS named
WITH [name IN named | [
    name[0], name[4],
    CASE WHEN any(other IN named WHERE other[2] <= name[2] AND name[3] <= other[3]
                                   AND other[3] - other[2] > name[3] - name[2])
         THEN 0.25 * name[1] ELSE name[1] END]] AS seeds
"""

# The tenant is part of the key, so every walk starts within it; whatever it meets is asked for
# its tenant again.
_SEEDS = f"""CYPHER replan=skip
UNWIND $given.spans AS span
MATCH (entity:Entity {{tenant: $given.tenant, key: span[0]}})
WITH collect([entity, span[1], span[2], span[3], COUNT {{ (entity)<-[:MENTIONS]-() }}]) AS named
{_WEIGHED}"""

# Names, or segments: one of both is empty. Segments weigh all alike, and keep their order.
_TOLD_SEEDS = f"""CYPHER replan=skip
CALL () {{
    UNWIND $given.spans AS span
    MATCH (entity:Entity {{tenant: $given.tenant, key: span[0]}})
    RETURN entity, span, 0 AS place
  UNION ALL
    UNWIND range(0, size($given.segments) - 1) AS place
    MATCH (:Segment {{tenant: $given.tenant, id: $given.segments[place]}})-[:IS]->(entity:Entity)
    WHERE entity.tenant = $given.tenant
    WITH entity, min(place) AS place
    RETURN entity, [entity.key, 1.0, -1, -1] AS span, place
}}
WITH entity, span, place ORDER BY place
WITH collect([entity, span[1], span[2], span[3], COUNT {{ (entity)<-[:MENTIONS]-() }}]) AS named
{_WEIGHED}"""

# ---------------------------------------------------------------- what is handed on


def _walks(*, told: bool) -> str:
    """The facts from a seed and what they lead to, as `walks`.

    What an entity hands on is spread over its facts, as over its mentions: each
    gets it divided by the root of their number.
    """
    followed = _followed("leaving", "first", "middle") if told else _held("first")
    return f"""
        WITH seed, activation / sqrt(COUNT {{ (seed)<-[:SUBJECT|OBJECT]-() }}) AS spread
        MATCH (seed)<-[leaving:SUBJECT|OBJECT]-(first)-[:SUBJECT|OBJECT]->(middle)
        WHERE middle <> seed AND {followed}
        WITH seed, spread * first.weight AS share, leaving, first, middle
        LIMIT $given.facts_per_seed
        WITH seed, collect([share, leaving, first, middle]) AS walks
"""


def _second_hop(*, told: bool) -> str:
    """One fact further from each of the `walks`."""
    followed = _followed("onward", "second", "end") if told else _held("second")
    as_far = " AND $given.hops > 1" if told else ""
    return f"""
            UNWIND walks AS walk
            WITH seed, walk, walk[0] AS share, walk[2] AS first, walk[3] AS middle
            WITH *, COUNT {{ (middle)<-[:SUBJECT|OBJECT]-() }} AS facts WHERE facts > 1{as_far}
            CALL (seed, share, first, middle, facts) {{
                MATCH (middle)<-[onward:SUBJECT|OBJECT]-(second)-[:SUBJECT|OBJECT]->(end)
                WHERE second <> first AND end <> middle AND end <> seed AND {followed}
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


def _best(item: str, tie: str = "0") -> str:
    """Orders what was found and returns the best in one record, the cheapest to receive.

    Scores are compared as whole billionths, since sums of floats in another
    order differ in their last bits and would break ties at random. Equal ones
    go by `tie`, then by id.
    """
    return f"""
    WITH {item}, toInteger(1e9 * score) AS score, trails, {tie} AS tie
    ORDER BY score DESC, tie, {item}.id LIMIT $given.depth
    RETURN collect([{item}.id, score, {_WRITTEN_TRAILS}]) AS found
}}
RETURN size(seeds) AS seeds, found"""


# A segment that was given as a seed is found only from another one.
_FROM_ANOTHER = """
        WITH * WHERE $given.by_name OR NOT EXISTS { (segment)-[:IS]->(seed) }"""


def _find_segments(*, told: bool) -> str:
    """The segments that the walk meets.

    An entity with more mentions than the fan-out is a hub: it brings only as many, the
    newest as a rule, and is otherwise asked whether it is mentioned by what the rest
    brought. So its cost is bounded, and nothing is lost of what it says about them.
    """
    others = " WHERE $given.by_name OR NOT (segment)-[:IS]->(named)" if told else ""
    return f"""{_TOLD_SEEDS if told else _SEEDS}
CALL (seeds) {{
    CALL (seeds) {{
        UNWIND seeds AS row
        WITH row[0] AS seed, row[1] AS mentions, row[2] AS activation
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
{_walks(told=told)}
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
{_second_hop(told=told)}
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
        }}{_FROM_ANOTHER if told else ""}
        WITH segment, gain, seed, walk, onward, second, end, cited LIMIT $given.rows
        RETURN segment, sum(gain) AS walked, collect({_TRAIL}) AS trails
    }}
    WITH segment, walked, trails, [row IN seeds WHERE row[1] > $given.fan_out] AS hubs,
         [(segment)-[:MENTIONS]->(named){others} | named] AS names
    WITH segment, trails, reduce(
        score = walked, hub IN hubs |
        score + CASE WHEN hub[0] IN names THEN hub[2] / sqrt(hub[1]) ELSE 0.0 END) AS score
    WHERE segment.tenant = $given.tenant
{_best("segment")}"""


def _find_facts(*, told: bool) -> str:
    """The facts that the walk passes."""
    passes = _passes(_OURS) if told else _passes()
    return f"""{_TOLD_SEEDS if told else _SEEDS}
CALL (seeds) {{
    CALL (seeds) {{
        UNWIND seeds AS row
        WITH row[0] AS seed, row[2] AS activation
        CALL (seed, activation) {{
{_walks(told=told)}
            CALL (seed, walks) {{
                UNWIND walks AS walk
                WITH walk, walk[2] AS fact WHERE {passes}
                RETURN fact, walk[0] AS gain, walk, {_ONE_HOP}
              UNION ALL
{_second_hop(told=told)}
                WITH second AS fact, handed, walk, onward, second, end WHERE {passes}
                RETURN fact, handed AS gain, walk, onward, second, end LIMIT $given.rows
            }}
            RETURN fact, gain, walk, onward, second, end
        }}
        WITH fact, gain, seed, walk, onward, second, end, false AS cited LIMIT $given.rows
        RETURN fact, sum(gain) AS score, collect({_TRAIL}) AS trails
    }}
{_best("fact")}"""


# ---------------------------------------------------------------- how far away


def _nearness(hops: int, fact: str) -> str:
    """The score of what is so many hops away, over `fact` at last."""
    return f"1.0 / ({hops} + coalesce($given.places[toLower({fact}.relation)], 0.0))"


def _standing_for(fact: str, entity: str) -> str:
    """The segments that a step ends at: what the entity is, or else the evidence of the fact."""
    return f"""
            CALL (seed, {fact}, {entity}) {{
                MATCH ({entity})<-[:IS]-({_OURS}) WHERE {VISIBLE}
                RETURN segment, false AS cited
              UNION ALL
                WITH seed, {fact}, {entity}
                WHERE NOT EXISTS {{ ({entity})<-[:IS]-(:Segment {{tenant: $given.tenant}}) }}
                MATCH ({fact})-[:EVIDENCE]->({_OURS})
                WHERE {VISIBLE} AND NOT EXISTS {{ (segment)-[:IS]->(seed) }}
                RETURN segment, true AS cited
            }}
"""


# Hop by hop, over all seeds, so that what is near is there before the limit on rows is reached.
_FIRST_STEPS = f"""
        UNWIND range(0, size(seeds) - 1) AS place
        WITH place, seeds[place][0] AS seed
        CALL (seed) {{
            MATCH (seed)<-[leaving:SUBJECT|OBJECT]-(first)-[:SUBJECT|OBJECT]->(middle)
            WHERE middle <> seed AND {_followed("leaving", "first", "middle")}
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
                  AND {_followed("onward", "second", "end")}
                RETURN onward, second, end LIMIT $given.facts_per_entity
            }}
"""


def _by_distance(item: str, near: str, far: str) -> str:
    """Orders items by the nearest way to each; equally near ones as their seeds are ordered.

    `near` turns `first` and `middle` into items, `far` does `second` and `end`;
    each says whether the item was `cited`.
    """
    return f"""{_TOLD_SEEDS}
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


FIND_SEGMENTS = _find_segments(told=False)
FIND_FACTS = _find_facts(told=False)
FOLLOW_TO_SEGMENTS = _find_segments(told=True)
FOLLOW_TO_FACTS = _find_facts(told=True)
NEAREST_SEGMENTS = _by_distance(
    "segment", _standing_for("first", "middle"), _standing_for("second", "end")
)
NEAREST_FACTS = _by_distance(
    "fact",
    f"            WITH *, first AS fact, false AS cited WHERE {_passes(_OURS)}",
    f"            WITH *, second AS fact, false AS cited WHERE {_passes(_OURS)}",
)

USUAL = (FIND_SEGMENTS, FIND_FACTS)
"""What the default profile asks, and what asks for facts in its place."""

OTHERS = (FOLLOW_TO_SEGMENTS, FOLLOW_TO_FACTS, NEAREST_SEGMENTS, NEAREST_FACTS)
"""What only a profile asks that tells the walk where to start, what to follow or how far."""

SEARCHES = USUAL + OTHERS
"""All that a question may lead to, but for `NEAR_NAMES`, which needs no planning to speak of."""
