"""A question's lexemes, and the search statements that use them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from serving.adapters.postgres.connection.pool import Connection
from serving.adapters.postgres.tables.filters import Conditions, conditions_of
from serving.adapters.postgres.tables.tenants import find_tenant
from serving.adapters.postgres.words.query_plan import quoted
from serving.domain.items.records import segment_id
from serving.domain.languages import language_of
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import WordsSearch
from serving.domain.ranking.ranked_list import Candidate
from serving.domain.words.lexemes import asked_lexemes


@dataclass(frozen=True, slots=True)
class QuestionWords:
    """The input of every lexical search.

    `words` maps the question's distinct lexemes, in the tenant's language, to their counts; at
    least one. `conditions` are those of the question's scope.
    """

    tenant_id: int
    words: Mapping[str, int]
    conditions: Conditions
    depth: int


_NAME = re.compile(r"(?<=[\w,;:] )[^\W\d_a-z][a-z]\w*")
"""A word within a sentence that is written as a name. "PIN" is not: it may be what is asked for."""

_TOLD_BY_MORE_THAN_A_NAME = """(NOT sensitive OR tsv @@ (
  SELECT string_agg(word || ':D', ' | ')::tsquery FROM unnest({}::text[]) AS word
   WHERE NOT EXISTS (SELECT FROM segment AS said
                      WHERE said.tenant_id = %(tenant_id)s::int4 -- tenant filter
                        AND said.tsv @@ (word || ':C')::tsquery)))"""
"""A sensitive row is found by a word of its text that names nobody, and no speaker of the tenant.
PostgreSQL evaluates the subquery once, and only if a sensitive row is among the candidates."""


async def parse_question(connection: Connection, query: Query, depth: int) -> QuestionWords | None:
    """Reads the words of a question; None for an unknown tenant or without any."""
    tenant = await find_tenant(connection, query.scope.tenant)
    if tenant is None:
        return None
    language = language_of(tenant.text_search_config)
    words = asked_lexemes(query.text, language)
    if not words:
        return None
    names = asked_lexemes(" ".join(_NAME.findall(query.text)), language)
    conditions = conditions_of(query.scope.segment_filter, query.scope.as_of)
    unnamed = [quoted(word) for word in words if word not in names]
    conditions.add(_TOLD_BY_MORE_THAN_A_NAME, unnamed)
    return QuestionWords(tenant.id, words, conditions, depth)


class PartWeights(NamedTuple):
    """What a word counts in each part of a segment: `scale` times `labels`.

    `labels` is PostgreSQL's array for the labels D, C, B and A, none of it above 1: text, speaker,
    keywords and title (schema/0005_keywords.sql).
    """

    labels: list[float]
    scale: float


def parts_of(words: WordsSearch) -> PartWeights:
    """The weights of a search."""
    weights = [1.0, words.speaker, words.keywords, words.title]
    scale = max(weights)
    return PartWeights([weight / scale for weight in weights], scale)


async def find_segments(
    connection: Connection, statement: str, question: QuestionWords, values: Mapping[str, object]
) -> list[Candidate]:
    """Executes a search that selects ids and scores, best first.

    Args:
        connection: A search connection.
        statement: Has `{conditions}` in place of the scope's conditions, and placeholders for
            `tenant_id` and `depth` in addition to those of `values`.
        question: The parsed question.
        values: The statement's other values.
    """
    given = {
        **question.conditions.values,
        "tenant_id": question.tenant_id,
        "depth": question.depth,
        **values,
    }
    cursor = await connection.execute(
        statement.format(conditions=question.conditions), given, prepare=True, binary=True
    )
    rows = await cursor.fetchall()
    return [Candidate(segment_id(id_), score) for id_, score in rows if score > 0]
