"""Compounds that are one word for some writers and two for others: "icecream", "dog sitter"."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from serving.domain.languages import Language, language_of

MIN_PART = 3
"""The letters of each part, but of a function word behind the other: "cutoff"."""

MAX_JOINED = 12
"""In a longer question no words are joined: few of them are compounds."""

MAX_REMEMBERED = 1 << 12
"""Words whose parts are remembered."""


def joined_pairs(words: Sequence[str], language: Language) -> list[tuple[str, int]]:
    """Each two neighbours of a question as one word, with the place of the first, from 1.

    What is stored has one form, so that its index stays small.
    """
    if len(words) > MAX_JOINED:
        return []
    return [
        (left + right, place)
        for place, (left, right) in enumerate(pairwise(words), 1)
        if _may_be_part(left, language) and _may_be_part(right, language)
    ]


def _may_be_part(word: str, language: Language) -> bool:
    return word.isalpha() and len(word) > 1 and word not in language.function_words


@lru_cache(MAX_REMEMBERED)
def parts_of(word: str, name: str) -> tuple[str, ...]:
    """The two words that a compound is made of; none if it is a word of its own, or a name.

    Args:
        word: As it is written.
        name: The language, which must know its less usual words too.
    """
    language = language_of(name)
    known = language.known_words
    if word in known or not word.islower():
        return ()
    splits = [
        (word[:at], word[at:])
        for at in range(MIN_PART, len(word) - 1)
        if word[:at] in known
        and (
            (len(word) - at >= MIN_PART and word[at:] in known)
            or word[at:] in language.function_words
        )
    ]
    return max(splits, key=lambda parts: min(map(len, parts)), default=())
