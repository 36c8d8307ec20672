"""A question's words as PostgreSQL reads them, and the segments that may be found by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from serving.adapters.postgres.filters import Conditions, conditions_of
from serving.adapters.postgres.pool import Connection
from serving.adapters.postgres.words_planner import quoted
from serving.domain.query import Query
from serving.domain.ranking import Candidate
from serving.domain.records import segment_id


@dataclass(frozen=True, slots=True)
class AskedWords:
    """What every search by words is asked.

    `words` are the question's lexemes, distinct, in the tenant's language, and how often it has
    each; at least one. `conditions` are those of the question's scope.
    """

    tenant_id: int
    words: Mapping[str, int]
    conditions: Conditions
    depth: int

    def any_of_them(self) -> str:
        """A tsquery for the rows with any of the words."""
        return " | ".join(map(quoted, self.words))

    def all_of_them(self) -> str:
        """A tsquery for the rows with all of the words."""
        return " & ".join(map(quoted, self.words))


async def read_words(connection: Connection, query: Query, depth: int) -> AskedWords | None:
    """Reads a question; None for an unknown tenant, or if all words are stop words."""
    cursor = await connection.execute(
        """
        SELECT id, words, counts
          FROM tenant, LATERAL (
            SELECT array_agg(lexeme) AS words, array_agg(cardinality(positions)) AS counts
              FROM unnest(to_tsvector(quote_ident(text_search_config)::regconfig, %s))) AS asked
         WHERE name = %s::text -- tenant filter
        """,
        [query.text.replace("\0", " "), query.scope.tenant],
        prepare=True,
        binary=True,
    )
    row = await cursor.fetchone()
    if row is None or not row[1]:
        return None
    conditions = conditions_of(query.scope.segment_filter, query.scope.as_of)
    words = dict(zip(row[1], row[2], strict=True))
    return AskedWords(row[0], words, conditions, depth)


async def find_segments(
    connection: Connection, statement: str, asked: AskedWords, values: Mapping[str, object]
) -> list[Candidate]:
    """Runs a search that selects ids and scores, best first.

    Args:
        connection: For searches.
        statement: With `{conditions}` where those of the scope belong, and with placeholders for
            `tenant_id` and `depth` beside those of `values`.
        asked: What is asked.
        values: What else the statement needs.
    """
    given = {
        **asked.conditions.values,
        "tenant_id": asked.tenant_id,
        "depth": asked.depth,
        **values,
    }
    cursor = await connection.execute(
        statement.format(conditions=asked.conditions), given, prepare=True, binary=True
    )
    return [Candidate(segment_id(id_), score) for id_, score in await cursor.fetchall()]
