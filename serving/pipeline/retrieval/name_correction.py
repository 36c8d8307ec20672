"""Corrects misspelt and shortened names in a question to names the tenant has stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from serving.domain.budget import Deadline
from serving.domain.errors import TriviumError
from serving.domain.questions.name_index import words_of
from serving.domain.questions.query import Query
from serving.ports.words import NameResolver

MAX_WORDS = 128
"""The most words of a question that are looked up."""


class NameCorrection(NamedTuple):
    """A word of the question, and the name that replaced it."""

    given: str
    used: str


async def correct_names(
    query: Query, names: NameResolver, deadline: Deadline
) -> tuple[Query, tuple[NameCorrection, ...]]:
    """Replaces words that stand for known names; returns the query and the corrections.

    Only words that occur in none of the tenant's segments are replaced, so lexical and graph search
    lose nothing; and only words written as names, if the question has capitals. If the names cannot
    be read the question stays as it is.
    """
    words = _possible_names(query.text)[:MAX_WORDS]
    if not words:
        return query, ()
    try:
        meant = await names.meant(query.scope.tenant, words, deadline)
    except (TriviumError, TimeoutError):
        # The legs report a store that is down; the question is answered without corrections.
        return query, ()
    corrections = tuple(NameCorrection(word, meant[word]) for word in words if word in meant)
    if not corrections:
        return query, ()
    return replace(query, text=reading(query.text, meant)), corrections


def _possible_names(text: str) -> list[str]:
    """The distinct words of a question that may stand for names.

    Where a question has capitals, a word without one is an ordinary word: "bill" is not Bella.
    """
    words = dict.fromkeys(words_of(text))
    has_capitals = any(word != word.lower() for word in words)
    return [word for word in words if not has_capitals or word != word.lower()]


def reading(text: str, meant: Mapping[str, str]) -> str:
    """Replaces each occurrence of the words by the names they stand for."""
    if not meant:
        return text
    words = "|".join(map(re.escape, meant))
    return re.sub(rf"(?<![^\W\d_])({words})(?![^\W\d_])", lambda found: meant[found[1]], text)
