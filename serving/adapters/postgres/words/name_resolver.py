"""Resolution of unknown words in a question to known names."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.words.known_names import KnownNames, TenantNames
from serving.adapters.postgres.words.word_statistics import WordStatisticsCache
from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.domain.languages import ENGLISH, Language
from serving.domain.words.compounds import parts_of
from serving.domain.words.lexemes import asked_lexemes, is_function_word, languages_of
from serving.domain.words.query_plan import WordStatistics, quoted


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
        words = self._doubtful(tenant, _without_function_words(words))
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
            rare = _rare(alike, known.language, statistics)
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
        return list(_rare(alike, known.language, statistics))


def _without_function_words(words: Sequence[str]) -> Sequence[str]:
    """Those of the language of the words: what has only them is stored without them."""
    language = languages_of(" ".join(words), ENGLISH)[0]
    return [word for word in words if language.folded(word) not in language.function_words]


def _alike(words: Sequence[str], known: TenantNames) -> dict[str, str]:
    """The names that words resemble, by word; ordinary words in small letters resemble none.

    A word in small letters that resembles none may be two words: "icecream".
    """
    ordinary, language = known.language.known_words, known.language.name
    names = {
        word: known.index.meant_by(word) or " ".join(parts_of(word, language))
        for word in words
        if word not in ordinary
    }
    return {word: name for word, name in names.items() if name}


def _rare(words: Iterable[str], language: Language, statistics: WordStatistics) -> dict[str, str]:
    """The lexemes of words that are no function words, and not known to occur in several texts."""
    lexemes = {word: next(iter(asked_lexemes(word, language)), None) for word in words}
    return {
        word: lexeme
        for word, lexeme in lexemes.items()
        if lexeme is not None
        and not is_function_word(lexeme)
        and lexeme not in statistics.frequencies
    }


async def _stored(connection: Connection, tenant_id: int, lexemes: Collection[str]) -> set[str]:
    if not lexemes:
        return set()
    given = {
        "tenant_id": tenant_id,
        "lexemes": list(lexemes),
        "queries": list(map(quoted, lexemes)),
    }
    return {lexeme for (lexeme,) in await connection.fetch_all(_STORED, given, prepare=True)}


_STORED = """
SELECT given.lexeme
  FROM unnest(%(lexemes)s::text[], %(queries)s::text[]) AS given (lexeme, query)
 WHERE EXISTS (SELECT FROM segment
                WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
                  AND tsv @@ given.query::tsquery)
"""
