"""Reads a question as it was probably meant: misheard names, and short ones, as known ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from serving.domain.budget import Deadline
from serving.domain.errors import TriviumError
from serving.domain.name_index import words_of
from serving.domain.query import Query
from serving.ports import NameResolver

MOST_WORDS = 128
"""The words of a question that are looked at."""


class HeardName(NamedTuple):
    """A word of the question, and the name it was read as."""

    given: str
    used: str


async def read_names(
    query: Query, names: NameResolver, deadline: Deadline
) -> tuple[Query, tuple[HeardName, ...]]:
    """The question with words that stand for known names replaced by these, and which were.

    Only a word that the tenant has stored nowhere is replaced, so words and the graph lose nothing
    by it. Where nothing can be learnt of the names the question stays as it is.
    """
    words = list(dict.fromkeys(words_of(query.text)))[:MOST_WORDS]
    if not words:
        return query, ()
    try:
        meant = await names.meant(query.scope.tenant, words, deadline)
    except (TriviumError, TimeoutError):
        # Whoever needs the same store says so; a question is no worse than without this step.
        return query, ()
    read = tuple(HeardName(word, meant[word]) for word in words if word in meant)
    return (replace(query, text=reading(query.text, meant)), read) if read else (query, ())


def reading(text: str, meant: Mapping[str, str]) -> str:
    """The text with each of the words, wherever it stands, replaced by what it is meant as."""
    if not meant:
        return text
    words = "|".join(map(re.escape, meant))
    return re.sub(rf"(?<![^\W\d_])({words})(?![^\W\d_])", lambda found: meant[found[1]], text)
