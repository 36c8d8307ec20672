"""Words in memory: the reference for what is found by them, and for the names they stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.domain.items.text import name_words, text_of
from serving.domain.languages import ENGLISH
from serving.domain.questions.name_index import NameIndex
from serving.domain.questions.query import NO_FILTER, Query
from serving.domain.ranking.leg_options import WordsSearch
from serving.domain.ranking.ranked_list import Candidate, best_first
from serving.domain.words.compounds import homophones_of, parts_of
from serving.ports.memory_store import Catalog
from tests.fakes.store import InMemoryStore
from tests.fakes.times import ALL

_NAME = re.compile(r"(?<= )[A-Z][a-z]+")
_STOP_WORDS = {"what", "does", "was", "the", "of", "at", "is", "my", "to"}


class InMemoryWords:
    """The port `LexicalSearch`, over the segments of a catalog: the more words, the better.

    It knows no stop words and one way to match, with any of the words.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def search(
        self, query: Query, words: WordsSearch, depth: int, enough: int, deadline: Deadline
    ) -> list[Candidate]:
        if deadline.passed:
            raise TimeoutError
        scope = query.scope
        stored = await self._catalog.list_segments(scope.tenant, scope.segment_filter, "", ALL)
        named = _words(" ".join([*_NAME.findall(query.text), *(each.speaker for each in stored)]))
        unnamed = _words(query.text) - named - _STOP_WORDS
        found = {
            segment.item: len(_words(query.text) & _words(text_of(segment)))
            for segment in stored
            if segment.event_time <= scope.as_of
            and (not segment.sensitive or _words(segment.text) & unnamed)
        }
        return best_first(
            Candidate(item, float(shared)) for item, shared in found.items() if shared
        )[:depth]


def _words(text: str) -> set[str]:
    return set(name_words(text))


class InMemoryNameResolver:
    """The port `NameResolver`, over a store; it knows no other forms of a word."""

    def __init__(self, store: InMemoryStore) -> None:
        self._store = store

    async def meant(
        self, tenant: TenantName, words: Sequence[str], deadline: Deadline
    ) -> dict[str, str]:
        if deadline.passed:
            raise TimeoutError
        names = await self._store.known_names(tenant)
        segments = await self._store.list_segments(tenant, NO_FILTER, "", ALL)
        stored = {word for each in segments for word in name_words(text_of(each))}
        index = NameIndex(names.values())
        texts = [f" {' '.join(name_words(text_of(each)))} " for each in segments]
        meant = {}
        for word in words:
            ordinary = word in ENGLISH.known_words
            name = None if ordinary else index.meant_by(word)
            others = [*homophones_of(word, ENGLISH.name), " ".join(parts_of(word, ENGLISH.name))]
            others = [each for each in others if each and _is_in(each, texts)]
            if word.casefold() not in stored and (readings := [name] if name else others):
                meant[word] = readings[0]
        return meant


def _is_in(words: str, texts: Iterable[str]) -> bool:
    """Whether a text has the words next to each other, but for function words."""
    content = [word for word in words.split() if word not in ENGLISH.function_words]
    return any(f" {' '.join(content)} " in text for text in texts)
