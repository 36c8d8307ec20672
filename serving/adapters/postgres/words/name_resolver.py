"""Resolution of unknown words in a question to known names."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from serving.adapters.postgres.connection.pool import Connection, Database
from serving.adapters.postgres.words.known_names import KnownNames, TenantNames
from serving.adapters.postgres.words.query_plan import WordStatistics, quoted
from serving.adapters.postgres.words.word_statistics import WordStatisticsCache
from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.domain.languages import Language
from serving.domain.words.lexemes import asked_lexemes, is_function_word


class PostgresNameResolver:
    """`NameResolver` over names in memory and words in PostgreSQL."""

    def __init__(
        self, database: Database, names: KnownNames, statistics: WordStatisticsCache
    ) -> None:
        self._database = database
        self._names = names
        self._statistics = statistics

    async def meant(
        self, tenant: TenantName, words: Sequence[str], deadline: Deadline
    ) -> dict[str, str]:
        """Resolves words to the names that they resemble.

        A word that occurs in any text of the tenant, in any form, or that is a stop word, resolves
        to nothing. PostgreSQL is asked only if a word may resolve to something.
        """
        words = self._doubtful(tenant, words)
        if not words:
            return {}
        async with asyncio.timeout(deadline.remaining()):
            await self._names.read(tenant)
        async with self._database.search(deadline, tenant) as connection:
            known = await self._names.updated(connection, tenant)
            if known is None:
                return {}
            alike = _alike(words, known)
            if not alike:
                return {}
            statistics = await self._statistics.of_tenant(connection, known.tenant_id)
            rare = {
                word: lexeme
                for word in alike
                if (lexeme := _lexeme(word, known.language)) is not None
                and lexeme not in statistics.frequencies
            }
            stored = await _stored(connection, known.tenant_id, rare.values())
            return {word: alike[word] for word, lexeme in rare.items() if lexeme not in stored}

    def _doubtful(self, tenant: TenantName, words: Sequence[str]) -> Sequence[str]:
        """The words that, by what is cached, may resolve to a name; all if that may be stale."""
        known = self._names.current(tenant)
        if known is None:
            return words
        alike = list(_alike(words, known))
        statistics = self._statistics.cached(known.tenant_id)
        if statistics is None:
            return alike
        return [word for word in alike if not _is_common(word, known.language, statistics)]


def _alike(words: Sequence[str], known: TenantNames) -> dict[str, str]:
    """The names that words resemble, by word; ordinary words in small letters resemble none."""
    ordinary = known.language.ordinary_words
    names = {word: known.index.meant_by(word) for word in words if word not in ordinary}
    return {word: name for word, name in names.items() if name is not None}


def _is_common(word: str, language: Language, statistics: WordStatistics) -> bool:
    """Whether a word is a function word, or known to occur in several texts."""
    lexeme = _lexeme(word, language)
    return lexeme is None or lexeme in statistics.frequencies


def _lexeme(word: str, language: Language) -> str | None:
    """The lexeme of a word; None for a function word, or what is no word."""
    lexeme = next(iter(asked_lexemes(word, language)), None)
    return None if lexeme is None or is_function_word(lexeme) else lexeme


async def _stored(connection: Connection, tenant_id: int, lexemes: Collection[str]) -> set[str]:
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
SELECT given.lexeme
  FROM unnest(%(lexemes)s::text[], %(queries)s::text[]) AS given (lexeme, query)
 WHERE EXISTS (SELECT FROM segment
                WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
                  AND tsv @@ given.query::tsquery)
"""
