"""Words by the ranks that PostgreSQL brings along, `ts_rank_cd` and `ts_rank`.

Both know nothing of how rare a word is and score every row that has one, so they rank worse
than the score of BM25's shape and take time in proportion to the tenant. They are here for the
profiles that reproduce designs built on them. No word has a weight of its own in our vectors,
so each counts as PostgreSQL's D, 0.1.
"""

from __future__ import annotations

from serving.adapters.postgres.asked_words import AskedWords, find_segments
from serving.adapters.postgres.pool import Connection
from serving.domain.ranking import Candidate


async def find_any(connection: Connection, asked: AskedWords) -> list[Candidate]:
    """Finds rows with any of the words, by cover density: `ts_rank_cd`."""
    return await find_segments(connection, _ANY, asked, {"any": asked.any_of_them()})


async def find_all_then_any(
    connection: Connection, asked: AskedWords, *, enough: int, rank_gate: float
) -> list[Candidate]:
    """Finds rows with all words by `ts_rank`; with fewer than `enough`, rows with any word too.

    Those of the second kind must have a rank above `rank_gate`. Both kinds are then ranked as
    having any of the words, since ranks of two questions do not compare.
    """
    all_of_them = asked.all_of_them()
    found = await find_segments(connection, _ALL, asked, {"all": all_of_them})
    if len(found) >= min(enough, asked.depth):
        return found
    values = {"all": all_of_them, "any": asked.any_of_them(), "rank_gate": rank_gate}
    return await find_segments(connection, _ALL_AND_ANY, asked, values)


_ANY = """
SELECT id, ts_rank_cd(tsv, %(any)s::tsquery) AS score FROM segment
 WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
   AND tsv @@ %(any)s::tsquery{conditions}
 ORDER BY score DESC, id LIMIT %(depth)s::int4
"""

_ALL = """
SELECT id, ts_rank(tsv, %(all)s::tsquery) AS score FROM segment
 WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
   AND tsv @@ %(all)s::tsquery{conditions}
 ORDER BY score DESC, id LIMIT %(depth)s::int4
"""

# Materialized, or each row would be ranked a second time for the gate.
_ALL_AND_ANY = """
WITH matching AS MATERIALIZED (
  SELECT id, ts_rank(tsv, %(any)s::tsquery) AS score, tsv @@ %(all)s::tsquery AS has_all
    FROM segment
   WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
     AND tsv @@ %(any)s::tsquery{conditions}
)
SELECT id, score FROM matching
 WHERE has_all OR score > %(rank_gate)s::float8
 ORDER BY score DESC, id LIMIT %(depth)s::int4
"""
