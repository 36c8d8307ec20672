"""Lexical search, and correction of names in questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import WordsSearch
from serving.domain.ranking.ranked_list import Candidate


class LexicalSearch(Protocol):
    """Finds segments by their words."""

    async def search(
        self, query: Query, words: WordsSearch, depth: int, enough: int, deadline: Deadline
    ) -> list[Candidate]:
        """Finds segments by words, best first; none for a question of stop words only.

        Equal scores of BM25 are ordered by time, and then by id; those of the other modes by id.
        With fewer than `enough`, ALL_THEN_ANY takes rows with any of the words.
        """


class NameResolver(Protocol):
    """Resolves unknown words of a question to names that the tenant has stored."""

    async def meant(
        self, tenant: TenantName, words: Sequence[str], deadline: Deadline
    ) -> Mapping[str, str]:
        """Returns the names or words that the words stand for, by word; others are omitted.

        The words are single, as written in the question, of `MIN_LETTERS` and more. One stands for
        a name only if no segment of the tenant has it, in any of its forms; then `NameIndex` of the
        tenant's names decides. One that resembles no name stands for a homophone that is stored, or
        for its two parts, if these are stored next to each other.
        """
