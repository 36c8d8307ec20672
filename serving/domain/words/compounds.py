"""Words that are written in another way: compounds ("icecream", "dog sitter"), and homophones."""

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
    """The two words that a compound may be made of; none of a name.

    Of a word that the language knows too ("saucepan"), neither is a function word.

    Args:
        word: As it is written.
        name: The language, which must know its less usual words too.
    """
    language = language_of(name)
    known, function_words = language.known_words, language.function_words
    if not word.islower():
        return ()
    splits = [(word[:at], word[at:]) for at in range(MIN_PART, len(word) - 1)]
    likely = [
        (head, end)
        for head, end in splits
        if head in known
        and (end in function_words or (len(end) >= MIN_PART and end in known))
        and (word not in known or function_words.isdisjoint((head, end)))
    ]
    return max(likely, key=lambda parts: min(map(len, parts)), default=())


def homophones_of(word: str, name: str) -> Sequence[str]:
    """The words that sound like a word in small letters: "flour" for "flower"."""
    language = language_of(name)
    if word in language.function_words:
        return ()
    return language.homophones.get(word) or language.homophones.get(word.removesuffix("s"), ())
