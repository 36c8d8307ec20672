"""Names in memory: the reference for what a word may stand for."""

from __future__ import annotations

from collections.abc import Sequence

from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.domain.items.text import name_words, text_of
from serving.domain.languages import ENGLISH
from serving.domain.questions.name_index import NameIndex
from serving.domain.questions.query import NO_FILTER
from serving.domain.words.compounds import parts_of
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
        unknown = [word for word in words if word.casefold() not in stored]
        alike = {
            word: index.meant_by(word) or " ".join(parts_of(word, ENGLISH.name))
            for word in unknown
            if word not in ENGLISH.known_words
        }
        return {word: name for word, name in alike.items() if name}
