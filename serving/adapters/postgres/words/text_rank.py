"""Search by PostgreSQL's own ranks, `ts_rank_cd` and `ts_rank`.

Both ignore how rare a word is and score every matching row, so they rank worse than the BM25-like
score and take time in proportion to the tenant. They serve the profiles that reproduce designs
built on them. In the cover density each word counts as PostgreSQL's D, 0.1. In `ts_rank` it counts
as A, 1.0, as the text does in the design that has the rank gate.
"""

from __future__ import annotations

from serving.adapters.postgres.connection.pool import Connection
from serving.adapters.postgres.words.query_plan import all_of, any_of
from serving.adapters.postgres.words.question_words import PartWeights, QuestionWords, find_segments
from serving.domain.ranking.ranked_list import Candidate


async def find_any(
    connection: Connection, question: QuestionWords, parts: PartWeights
) -> list[Candidate]:
    """Finds rows with any of the words, by cover density (`ts_rank_cd`)."""
    values = {
        "any": any_of(question.words),
        "labels": [COVER_DENSITY_OF_TEXT * label for label in parts.labels],
        "scale": parts.scale,
    }
    return await find_segments(connection, _ANY, question, values)


async def find_all_then_any(
    connection: Connection,
    question: QuestionWords,
    parts: PartWeights,
    *,
    enough: int,
    rank_gate: float,
) -> list[Candidate]:
    """Finds rows with all words by `ts_rank`; with fewer than `enough`, adds rows with any word.

    The added rows must rank above `rank_gate`. All rows are then ranked by the query for any word,
    since ranks of different queries do not compare.
    """
    all_words = all_of(question.words)
    values: dict[str, object] = {"all": all_words, **parts._asdict()}
    found = await find_segments(connection, _ALL, question, values)
    if len(found) >= min(enough, question.depth):
        return found
    values |= {"any": any_of(question.words), "rank_gate": rank_gate}
    return await find_segments(connection, _ALL_AND_ANY, question, values)


COVER_DENSITY_OF_TEXT = 0.1
"""PostgreSQL's default for words without a label."""

_ANY = """
SELECT id, %(scale)s::float4 * ts_rank_cd(%(labels)s::float4[], tsv, %(any)s::tsquery) AS score
  FROM segment
 WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
   AND tsv @@ %(any)s::tsquery{conditions}
 ORDER BY score DESC, id LIMIT %(depth)s::int4
"""

_ALL = """
SELECT id, %(scale)s::float4 * ts_rank(%(labels)s::float4[], tsv, %(all)s::tsquery) AS score
  FROM segment
 WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
   AND tsv @@ %(all)s::tsquery{conditions}
 ORDER BY score DESC, id LIMIT %(depth)s::int4
"""

# Materialized; otherwise each row would be ranked again for the gate.
_ALL_AND_ANY = """
WITH matching AS MATERIALIZED (
  SELECT id, %(scale)s::float4 * ts_rank(%(labels)s::float4[], tsv, %(any)s::tsquery) AS score,
         tsv @@ %(all)s::tsquery AS has_all
    FROM segment
   WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
     AND tsv @@ %(any)s::tsquery{conditions}
)
SELECT id, score FROM matching
 WHERE has_all OR score > %(rank_gate)s::float8
 ORDER BY score DESC, id LIMIT %(depth)s::int4
"""
