"""Resolution of unknown words in a question to known names."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.words.known_names import KnownNames, TenantNames
from serving.adapters.postgres.words.word_statistics import WordStatisticsCache
from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.domain.languages import ENGLISH, Language
from serving.domain.words.compounds import homophones_of, parts_of
from serving.domain.words.lexemes import asked_lexemes, is_function_word, languages_of
from serving.domain.words.query_plan import WordStatistics, quoted


class _Reading(NamedTuple):
    """A reading of a word, and the tsquery of the stored words that it needs; None for a name."""

    text: str
    stored: str | None = None


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
            readings = _readings(words, known)
            if not readings:
                return {}
            statistics = await self._statistics.of_tenant(connection, known.tenant_id)
            rare = _rare(readings, known.language, statistics)
            wanted = [each.stored for word in rare for each in readings[word] if each.stored]
            stored = await _stored(connection, known.tenant_id, [*rare.values(), *wanted])
        return {
            word: text
            for word, query in rare.items()
            if query not in stored
            for text in _first_of(readings[word], stored)
        }

    def _doubtful(self, tenant: TenantName, words: Sequence[str]) -> Sequence[str]:
        """The words that, by what is cached, may resolve to a name; all if that may be stale."""
        known = self._names.current(tenant)
        if known is None:
            return words
        readings = _readings(words, known)
        statistics = self._statistics.cached(known.tenant_id)
        if statistics is None:
            return list(readings)
        return list(_rare(readings, known.language, statistics))


def _without_function_words(words: Sequence[str]) -> Sequence[str]:
    """The words without the function words of their language, which texts are stored without."""
    language = languages_of(" ".join(words), ENGLISH)[0]
    return [word for word in words if language.folded(word) not in language.function_words]


def _readings(words: Sequence[str], known: TenantNames) -> dict[str, Sequence[_Reading]]:
    """The readings of words, by word.

    A name that it resembles, unless it is an ordinary word in small letters. Else what sounds like
    it ("flour" for "flower"), and its two parts next to each other ("sauce pan").
    """
    language = known.language
    found: dict[str, Sequence[_Reading]] = {}
    for word in words:
        name = None if word in language.known_words else known.index.meant_by(word)
        if name:
            found[word] = [_Reading(name)]
            continue
        alike = ((each,) for each in homophones_of(word, language.name))
        if others := [*filter(None, [*alike, parts_of(word, language.name)])]:
            found[word] = [_Reading(" ".join(each), _next_to(each, language)) for each in others]
    return found


def _first_of(readings: Sequence[_Reading], stored: Collection[str]) -> list[str]:
    """The first reading that is a name or stored; none if no one is."""
    return [each.text for each in readings if each.stored is None or each.stored in stored][:1]


def _next_to(words: Sequence[str], language: Language) -> str:
    """A tsquery for rows with words next to each other, without function words."""
    lexemes = [next(iter(asked_lexemes(word, language))) for word in words]
    return " <-> ".join(quoted(each) for each in lexemes if not is_function_word(each))


def _rare(words: Iterable[str], language: Language, statistics: WordStatistics) -> dict[str, str]:
    """The tsqueries of words, but for function words and those known to occur in several texts."""
    lexemes = {word: next(iter(asked_lexemes(word, language)), None) for word in words}
    return {
        word: quoted(lexeme)
        for word, lexeme in lexemes.items()
        if lexeme is not None
        and not is_function_word(lexeme)
        and lexeme not in statistics.frequencies
    }


async def _stored(connection: Connection, tenant_id: int, queries: Collection[str]) -> set[str]:
    """The tsqueries of which a segment of the tenant is one."""
    if not queries:
        return set()
    given = {"tenant_id": tenant_id, "queries": list(queries)}
    return {query for (query,) in await connection.fetch_all(_STORED, given, prepare=True)}


_STORED = """
SELECT given.query
  FROM unnest(%(queries)s::text[]) AS given (query)
 WHERE EXISTS (SELECT FROM segment
                WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
                  AND tsv @@ given.query::tsquery)
"""
