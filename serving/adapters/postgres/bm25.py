"""Words by a score of BM25's shape, over the candidates that a plan chose."""

from __future__ import annotations

from serving.adapters.postgres.asked_words import AskedWords, find_segments
from serving.adapters.postgres.pool import Connection
from serving.adapters.postgres.words_planner import Budget, WordsPlan, WordStatistics, plan_words
from serving.domain.ranking import Candidate

MOST_SCORED = 4000
"""Rows scored at most; two words that always go together can exceed any estimate."""


async def find_by_bm25(
    connection: Connection, asked: AskedWords, statistics: WordStatistics, budget: Budget
) -> list[Candidate]:
    """Searches within the budget; if that left rows out and too few were found, searches all."""
    plan = plan_words(asked.words, statistics, budget)
    found = await _find(connection, asked, plan)
    if len(found) < asked.depth and not plan.complete:
        plan = plan_words(asked.words, statistics, budget, complete=True)
        found = await _find(connection, asked, plan)
    return found


async def _find(connection: Connection, asked: AskedWords, plan: WordsPlan) -> list[Candidate]:
    values = {
        "candidates": plan.candidates,
        "words": plan.words,
        "weights": plan.weights,
        "base": plan.base,
        "slope": plan.slope,
    }
    return await find_segments(connection, _STATEMENT, asked, values)


# The casts of numbers matter: psycopg sends a small integer as int2, for which the index on
# int4 is of no use (12.7 ms instead of 1.2).
_STATEMENT = f"""
SELECT id,
       (SELECT sum(ts_rank('{{{{1,1,1,1}}}}', tsv, word) * weight)
          FROM unnest(%(words)s::tsquery[], %(weights)s::float4[]) AS asked (word, weight))
       / (%(base)s::float4 + %(slope)s::float4 * dl) AS score
  FROM (SELECT id, tsv, dl FROM segment
         WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
           AND tsv @@ %(candidates)s::tsquery{{conditions}}
         LIMIT {MOST_SCORED}) AS candidate
 ORDER BY score DESC, id LIMIT %(depth)s::int4
"""
