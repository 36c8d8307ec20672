"""Helpers to search by words."""

from __future__ import annotations

from serving.domain.budget import Deadline
from serving.domain.questions.query import NO_FILTER, Filter
from serving.domain.ranking.leg_options import WordsSearch
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.words import LexicalSearch
from tests.support.builders import TENANT, query, scope

BM25 = WordsSearch()


async def search(
    lexical: LexicalSearch,
    text: str,
    words: WordsSearch = BM25,
    *,
    depth: int = 100,
    enough: int = 10,
    tenant: str = TENANT,
    filter_: Filter = NO_FILTER,
    within_s: float = 10,
) -> list[Candidate]:
    asked = query(text, scope=scope(tenant, filter_=filter_))
    return await lexical.search(asked, words, depth, enough, Deadline.after(within_s))


def ids_of(candidates: list[Candidate]) -> list[str]:
    return [candidate.item.id for candidate in candidates]
