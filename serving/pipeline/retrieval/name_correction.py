"""Reads a question as it is meant: misspelt names, joined words, and words that sound alike."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from serving.domain.budget import Deadline
from serving.domain.errors import TriviumError
from serving.domain.languages import ENGLISH
from serving.domain.questions.name_index import words_of
from serving.domain.questions.query import Query
from serving.domain.words.compounds import homophones_of, parts_of
from serving.ports.words import NameResolver

MAX_WORDS = 128
"""The most words of a question that are looked up."""

MIN_TITLED = 4
"""The words from which a capital in each says nothing: in "Ask Bill" it does."""


class NameCorrection(NamedTuple):
    """A word of the question, and the name or the words that it is also read as."""

    given: str
    used: str


async def correct_names(
    query: Query, names: NameResolver, deadline: Deadline
) -> tuple[Query, tuple[NameCorrection, ...]]:
    """Adds known names after the words that stand for them; returns the query and the corrections.

    A name is added only to a word that occurs in none of the tenant's segments; and only to one
    that is written as a name, if the question has capitals. If the names cannot be read the
    question stays as it is.
    """
    possible = _possible_names(query.text)
    ordinary = _possible_spellings(query.text) - set(possible.values())
    possible |= {word: word for word in ordinary}
    if not possible:
        return query, ()
    try:
        found = await names.meant(query.scope.tenant, list(possible.values()), deadline)
    except (TriviumError, TimeoutError):
        # The legs report a store that is down; the question is answered without corrections.
        return query, ()
    meant = {
        word: found[read]
        for word, read in possible.items()
        if read in found and (found[read].islower() or read not in ordinary)
    }
    if not meant:
        return query, ()
    words = "|".join(map(re.escape, meant))
    text = re.sub(
        rf"(?<![^\W\d_])({words})(?![^\W\d_])",
        lambda word: f"{word[1]} {meant[word[1]]}",
        query.text,
    )
    return replace(query, text=text), tuple(NameCorrection(*each) for each in meant.items())


def _possible_spellings(text: str) -> set[str]:
    """The words in small letters that may be two, or another, in a question of not too many."""
    name = ENGLISH.name
    words = islice(words_of(text), MAX_WORDS)
    return {word for word in words if parts_of(word, name) or homophones_of(word, name)}


def _possible_names(text: str) -> dict[str, str]:
    """The distinct words of a question that may stand for names, as written, and as looked up.

    Where a question has capitals, a word without one is an ordinary word: "bill" is not Bella. The
    capital of the first word says nothing, and nor does that of each word.
    """
    words = list(dict.fromkeys(words_of(text)))[:MAX_WORDS]
    if text.isupper() or (text.istitle() and len(text.split()) >= MIN_TITLED):
        return {word: word.lower() for word in words}
    has_capitals = text != text.lower()
    possible = {word: word for word in words if not has_capitals or word != word.lower()}
    return possible | {word: word.lower() for word in words[:1] if text.lstrip().startswith(word)}
