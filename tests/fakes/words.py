"""Words without a language: the reference for what the leg of words may find."""

from __future__ import annotations

import re

from serving.domain.budget import Deadline
from serving.domain.items.text import name_words, text_of
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import WordsSearch
from serving.domain.ranking.ranked_list import Candidate, best_first
from serving.ports.memory_store import Catalog
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
