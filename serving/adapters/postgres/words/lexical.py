"""The lexical leg: a question's lexemes, and the search for them in the requested mode.

The usual mode scores the candidates that a query plan selects, like BM25. PostgreSQL's own ranks,
`ts_rank_cd` and `ts_rank`, ignore how rare a word is and score every matching row, so they rank
worse and take time in proportion to the tenant. They serve the profiles that reproduce designs
built on them. In the cover density each word counts as PostgreSQL's D, 0.1. In `ts_rank` it counts
as A, 1.0, as the text does in the design that has the rank gate.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

from serving.adapters.postgres.connection.notifications import Notifications
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.tables.filters import Conditions, conditions_of
from serving.adapters.postgres.tables.tenants import find_tenant
from serving.adapters.postgres.words.word_statistics import WordStatisticsCache
from serving.domain.budget import Deadline
from serving.domain.items.records import segment_id
from serving.domain.languages import language_of
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import WordsMode, WordsSearch
from serving.domain.ranking.ranked_list import Candidate
from serving.domain.words import query_plan
from serving.domain.words.lexemes import alternatives, asked_lexemes, languages_of

BUDGET = query_plan.Budget()

COVER_DENSITY_OF_TEXT = 0.1
"""PostgreSQL's default for words without a label."""

_NAME = re.compile(r"(?<=[\w,;:] )[^\W\d_a-z][a-z]\w*")
"""A word within a sentence that is written as a name. "PIN" is not: it may be what is asked for."""

_TOLD_BY_MORE_THAN_A_NAME = """(NOT sensitive OR tsv @@ (
  SELECT string_agg(word || ':D', ' | ')::tsquery FROM unnest({}::text[]) AS word
   WHERE NOT EXISTS (SELECT FROM segment AS said
                      WHERE said.tenant_id = %(tenant_id)s::int4 -- tenant filter
                        AND said.tsv @@ (word || ':C')::tsquery)))"""
"""A sensitive row is found by a word of its text that names nobody, and no speaker of the tenant.
PostgreSQL evaluates the subquery once, and only if a sensitive row is among the candidates."""


class PostgresLexicalSearch:
    """`LexicalSearch` in PostgreSQL."""

    def __init__(self, database: Database, notifications: Notifications) -> None:
        self._database = database
        self.statistics = WordStatisticsCache(database, notifications)

    async def close(self) -> None:
        """Cancels background tasks."""
        await self.statistics.close()

    async def search(
        self, query: Query, words: WordsSearch, depth: int, enough: int, deadline: Deadline
    ) -> list[Candidate]:
        async with self._database.search(deadline, query.scope.tenant) as connection:
            question = await _parse(connection, query, words, depth)
            if question is None:
                return []
            match words.mode:
                case WordsMode.BM25:
                    statistics = await self.statistics.of_tenant(connection, question.tenant_id)
                    return await _find_by_bm25(connection, question, statistics)
                case WordsMode.ANY:
                    return await _find_any(connection, question)
                case WordsMode.ALL_THEN_ANY:
                    return await _find_all_then_any(connection, question, enough, words.rank_gate)


@dataclass(frozen=True, slots=True)
class _Question:
    """The search terms of every mode.

    `words` maps the question's distinct lexemes, in its language and the tenant's, to counts; at
    least one; `every_word` has those of each word. `conditions` are those of the question's scope.
    In each part of a segment a word counts `scale` times `labels`: PostgreSQL's array for the
    labels D, C, B and A, none of it above 1, which are text, speaker, keywords and title
    (schema/0001_schema.sql).
    """

    tenant_id: int
    words: Mapping[str, int]
    every_word: Collection[Sequence[str]]
    conditions: Conditions
    depth: int
    labels: list[float]
    scale: float


async def _parse(
    connection: Connection, query: Query, words: WordsSearch, depth: int
) -> _Question | None:
    """Reads a question; None for an unknown tenant or without any words."""
    tenant = await find_tenant(connection, query.scope.tenant)
    if tenant is None:
        return None
    languages = languages_of(query.text, language_of(tenant.text_search_config))
    asked = asked_lexemes(query.text, *languages)
    if not asked:
        return None
    names = asked_lexemes(" ".join(_NAME.findall(query.text)), *languages)
    conditions = conditions_of(query.scope.segment_filter, query.scope.as_of)
    # Speakers are known by the stems of the tenant's language, whatever language they spoke.
    unnamed = [
        query_plan.quoted(word)
        for word in asked_lexemes(query.text, languages[-1])
        if word in asked and word not in names
    ]
    conditions.add(_TOLD_BY_MORE_THAN_A_NAME, unnamed)
    weights = [1.0, words.speaker, words.keywords, words.title]
    scale = max(weights)
    labels = [weight / scale for weight in weights]
    every_word = alternatives(query.text, *languages)
    return _Question(tenant.id, asked, every_word, conditions, depth, labels, scale)


async def _find_by_bm25(
    connection: Connection, question: _Question, statistics: query_plan.WordStatistics
) -> list[Candidate]:
    """Searches within the budget; if that omitted rows and found too few, searches all rows."""
    for complete in (False, True):
        plan = query_plan.plan_query(question.words, statistics, BUDGET, complete=complete)
        values: dict[str, object] = {
            "candidates": plan.candidates,
            "labels": question.labels,
            "base": plan.base,
            "slope": plan.slope,
        }
        for place, (word, weight) in enumerate(zip(plan.words, plan.weights, strict=True)):
            values[f"word_{place}"] = query_plan.quoted(word)
            values[f"weight_{place}"] = question.scale * weight
        found = await _find(connection, _bm25_of(len(plan.words)), question, values)
        if len(found) >= question.depth or plan.complete:
            break
    return found


async def _find_any(connection: Connection, question: _Question) -> list[Candidate]:
    """Finds rows with any of the words, by cover density (`ts_rank_cd`)."""
    values = {
        "words": query_plan.any_of(question.words),
        "labels": [COVER_DENSITY_OF_TEXT * label for label in question.labels],
        "scale": question.scale,
    }
    return await _find(connection, _RANKED.replace("{rank}", "ts_rank_cd"), question, values)


async def _find_all_then_any(
    connection: Connection, question: _Question, enough: int, rank_gate: float
) -> list[Candidate]:
    """Finds rows with all words by `ts_rank`; with fewer than `enough`, adds rows with any word.

    The added rows must rank above `rank_gate`. All rows are then ranked by the query for any word,
    since ranks of different queries do not compare.
    """
    every = query_plan.all_of(question.every_word)
    values = {"words": every, "labels": question.labels, "scale": question.scale}
    found = await _find(connection, _RANKED.replace("{rank}", "ts_rank"), question, values)
    if len(found) >= min(enough, question.depth):
        return found
    # `ts_rank` divides by the number of words, so these must be as many as those that are written.
    written = [*chain.from_iterable(question.every_word)]
    values |= {"words": query_plan.any_of(written), "all": every, "rank_gate": rank_gate}
    return await _find(connection, _ALL_AND_ANY, question, values)


async def _find(
    connection: Connection, statement: str, question: _Question, values: Mapping[str, object]
) -> list[Candidate]:
    """Executes a search that selects ids and scores, best first.

    The statement has `{conditions}` in place of the scope's conditions, and placeholders for
    `tenant_id` and `depth` in addition to those of `values`.
    """
    given = {
        **question.conditions.values,
        "tenant_id": question.tenant_id,
        "depth": question.depth,
        **values,
    }
    rows = await connection.fetch_all(
        statement.format(conditions=question.conditions), given, prepare=True
    )
    return [Candidate(segment_id(id_), score) for id_, score in rows if score > 0]


@cache
def _bm25_of(words: int) -> str:
    """The search for a number of words.

    A term per word, since a subquery over an array of them, for each row, takes PostgreSQL longer.
    The numeric casts matter: psycopg sends a small integer as int2, which cannot use the index on
    int4 (12.7 ms instead of 1.2).
    """
    rank = "ts_rank(%(labels)s::float4[], tsv, %(word_{0})s::tsquery) * %(weight_{0})s::float4"
    score = " + ".join(rank.format(place) for place in range(words))
    return f"""
SELECT id, ({score}) / (%(base)s::float4 + %(slope)s::float4 * dl) AS score
  FROM (SELECT id, event_time, tsv, dl FROM segment
         WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
           AND tsv @@ %(candidates)s::tsquery{{conditions}}
         LIMIT {query_plan.MAX_SCORED}) AS candidate
 ORDER BY score DESC, event_time, id LIMIT %(depth)s::int4
"""


_RANKED = """
SELECT id, %(scale)s::float4 * {rank}(%(labels)s::float4[], tsv, %(words)s::tsquery) AS score
  FROM segment
 WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
   AND tsv @@ %(words)s::tsquery{conditions}
 ORDER BY score DESC, id LIMIT %(depth)s::int4
"""

# Materialized; otherwise each row would be ranked again for the gate.
_ALL_AND_ANY = """
WITH matching AS MATERIALIZED (
  SELECT id, %(scale)s::float4 * ts_rank(%(labels)s::float4[], tsv, %(words)s::tsquery) AS score,
         tsv @@ %(all)s::tsquery AS has_all
    FROM segment
   WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
     AND tsv @@ %(words)s::tsquery{conditions}
)
SELECT id, score FROM matching
 WHERE has_all OR score > %(rank_gate)s::float8
 ORDER BY score DESC, id LIMIT %(depth)s::int4
"""
