"""The leg of words: BM25-shaped scores over the candidates that a plan chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from serving.adapters.postgres.filters import Conditions, conditions_of
from serving.adapters.postgres.pool import Connection, Database
from serving.adapters.postgres.word_statistics import WordStatisticsCache
from serving.adapters.postgres.words_planner import Budget, WordsPlan, plan_words
from serving.domain.budget import Deadline
from serving.domain.query import Query
from serving.domain.ranking import Candidate
from serving.domain.records import segment_id

MOST_SCORED = 4000
"""Rows scored at most; two words that always go together can exceed any estimate."""


@dataclass(frozen=True, slots=True)
class _Words:
    tenant_id: int
    words: list[str]


class PostgresLexicalSearch:
    """The port `LexicalSearch`."""

    def __init__(self, database: Database, budget: Budget | None = None) -> None:
        self._database = database
        self._budget = budget or Budget()
        self._statistics = WordStatisticsCache(database)

    async def close(self) -> None:
        """Ends what runs in the background."""
        await self._statistics.close()

    async def search(self, query: Query, depth: int, deadline: Deadline) -> list[Candidate]:
        """Finds segments by words, best first.

        1. Read the question's words, in the tenant's language.
        2. Plan with the tenant's statistics; search.
        3. If that left rows out and too few were found, search all.
        """
        async with self._database.search(deadline) as connection:
            words = await _words_of(connection, query)
            if words is None:
                return []
            statistics = await self._statistics.of_tenant(connection, words.tenant_id)
            conditions = conditions_of(query.scope.filter, query.scope.as_of)
            plan = plan_words(words.words, statistics, self._budget)
            found = await _search(connection, words.tenant_id, plan, conditions, depth)
            if len(found) < depth and not plan.complete:
                plan = plan_words(words.words, statistics, self._budget, complete=True)
                found = await _search(connection, words.tenant_id, plan, conditions, depth)
            return found


async def _words_of(connection: Connection, query: Query) -> _Words | None:
    """The question's lexemes; None for an unknown tenant, or if all are stop words."""
    cursor = await connection.execute(
        """
        SELECT id, tsvector_to_array(to_tsvector(quote_ident(text_search_config)::regconfig, %s))
          FROM tenant
         WHERE name = %s::text -- tenant filter
        """,
        [query.text.replace("\0", " "), query.scope.tenant],
        prepare=True,
        binary=True,
    )
    row = await cursor.fetchone()
    return None if row is None or not row[1] else _Words(row[0], row[1])


async def _search(
    connection: Connection, tenant_id: int, plan: WordsPlan, conditions: Conditions, depth: int
) -> list[Candidate]:
    values: Mapping[str, object] = {
        **conditions.values,
        "tenant_id": tenant_id,
        "candidates": plan.candidates,
        "words": plan.words,
        "weights": plan.weights,
        "base": plan.base,
        "slope": plan.slope,
        "depth": depth,
    }
    cursor = await connection.execute(
        _SEARCH.format(conditions=conditions), values, prepare=True, binary=True
    )
    return [Candidate(segment_id(id_), score) for id_, score in await cursor.fetchall()]


# The casts of numbers matter: psycopg sends a small integer as int2, for which the index on
# int4 is of no use (12.7 ms instead of 1.2).
_SEARCH = f"""
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
