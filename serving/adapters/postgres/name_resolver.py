"""The port `NameResolver`: names from memory, and PostgreSQL for what is stored nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from serving.adapters.postgres.names import KnownNames
from serving.adapters.postgres.pool import Connection, Database
from serving.adapters.postgres.word_statistics import WordStatisticsCache
from serving.adapters.postgres.words_planner import quoted
from serving.domain.budget import Deadline
from serving.domain.records import TenantName


class PostgresNameResolver:
    """The port `NameResolver`.

    Args:
        database: Where the words are stored.
        names: The names that can be meant.
        statistics: Knows the more common words without asking.
    """

    def __init__(
        self, database: Database, names: KnownNames, statistics: WordStatisticsCache
    ) -> None:
        self._database = database
        self._names = names
        self._statistics = statistics

    async def meant(
        self, tenant: TenantName, words: Sequence[str], deadline: Deadline
    ) -> dict[str, str]:
        """The names that words stand for.

        First what is like a name; of that only what is in no text, in any of its forms. Stop
        words are in none, and stand for none.
        """
        async with asyncio.timeout(deadline.remaining()):
            await self._names.read(tenant)
        async with self._database.search(deadline) as connection:
            known = await self._names.with_lexemes(connection, tenant, words)
            if known is None:
                return {}
            alike = {word: name for word in words if (name := known.index.meant_by(word))}
            if not alike:
                return {}
            statistics = await self._statistics.of_tenant(connection, known.tenant_id)
            rare = {
                word: lexeme
                for word in alike
                if (lexeme := known.lexemes[word]) is not None and lexeme not in statistics.shares
            }
            stored = await _stored(connection, known.tenant_id, rare.values())
            return {word: alike[word] for word, lexeme in rare.items() if lexeme not in stored}


async def _stored(connection: Connection, tenant_id: int, lexemes: Collection[str]) -> set[str]:
    """Those of the lexemes that some segment of the tenant has."""
    if not lexemes:
        return set()
    given = {
        "tenant_id": tenant_id,
        "lexemes": list(lexemes),
        "queries": list(map(quoted, lexemes)),
    }
    cursor = await connection.execute(_STORED, given, prepare=True, binary=True)
    return {lexeme for (lexeme,) in await cursor.fetchall()}


_STORED = """
SELECT asked.lexeme
  FROM unnest(%(lexemes)s::text[], %(queries)s::text[]) AS asked (lexeme, query)
 WHERE EXISTS (SELECT FROM segment
                WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
                  AND tsv @@ asked.query::tsquery)
"""
