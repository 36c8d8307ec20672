"""Segments related by shared mentions: the Cypher, its parameters, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from serving.adapters.neo4j.filters import VISIBLE
from serving.adapters.neo4j.rows import Row
from serving.adapters.neo4j.search import scope_parameters
from serving.domain.items.records import segment_id
from serving.domain.items.text import (
    MAX_MENTIONS,
    MAX_NAMES_SHOWN,
    NAMED_SHARE,
    words_to_name_by,
)
from serving.domain.questions.query import Query
from serving.domain.ranking.ranked_list import Candidate, best_first

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


def parameters(query: Query, seeds: Sequence[str], depth: int) -> Row:
    """The parameters of `RELATED_SEGMENTS`."""
    return {
        **scope_parameters(query.scope),
        "asked": sorted(words_to_name_by(query.text)),
        "named_share": NAMED_SHARE,
        "segments": list(seeds),
        "depth": depth,
        "most_mentions": MAX_MENTIONS,
        "names": MAX_NAMES_SHOWN,
    }


def candidates(found: Sequence[Sequence[object]]) -> list[Candidate]:
    """Converts the result to candidates, best first; a path names the shared entities."""
    return best_first(
        Candidate(segment_id(str(id_)), cast(int, score) / 1e9, ", ".join(cast(list[str], names)))
        for id_, score, names in found
    )
