"""Names in memory: the reference for what a word may stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.domain.items.text import name_words, text_of
from serving.domain.languages import ENGLISH
from serving.domain.questions.name_index import NameIndex
from serving.domain.questions.query import NO_FILTER
from serving.domain.words.compounds import homophones_of, parts_of
from tests.fakes.store import InMemoryStore
from tests.fakes.times import ALL


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
