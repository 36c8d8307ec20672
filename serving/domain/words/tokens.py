"""The words of a text: one function for what is stored and for what is asked.

What a reader may write in several ways has the tokens of each way (`codes.py`, `numbers.py`,
`spelled.py`), and a script without spaces has those of its letters (`scripts.py`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import TypeAlias

from serving.domain.languages import Language
from serving.domain.words.codes import (
    RANKS,
    codes_in,
    has_codes,
    has_digit,
    roman_numerals,
    spellings,
    without_grouping,
)
from serving.domain.words.compounds import joined_pairs
from serving.domain.words.normal_form import normal_form
from serving.domain.words.numbers import spoken_numbers
from serving.domain.words.scripts import is_unspaced, letter_pairs, word_starts, words_in
from serving.domain.words.spelled import spelled_words

Token: TypeAlias = tuple[str, int]
"""A word without case, and its place among the words of its text, from 1; several tokens of one
word have the same place."""


def tokens(text: str, language: Language, *, asked: bool = False) -> list[Token]:
    """The distinct tokens of a text. Codes and numbers have those of all their spellings.

    Args:
        text: What is stored or asked.
        language: That of the tenant: its rules of case, and its words for numbers.
        asked: Adds neighbours as one word, and leaves out the words of numbers ("oh", "one",
            "four", "two"): other numbers have them too, and the number itself is asked for.
    """
    text = normal_form(text)
    numerals = [*roman_numerals(text)]
    text = language.folded(text).replace("_", "-")
    coded = has_codes(text)
    if coded:
        text = without_grouping(" ".join(text.split()))
    words = words_in(text)
    found = [*zip(words, range(1, len(words) + 1), strict=True)]
    numbers = spoken_numbers(text, words, language)
    spelled = spelled_words(text, words, language)
    if not (coded or numbers or numerals or spelled or asked) and text.isascii():
        return found
    starts = word_starts(text)
    parts = {
        place
        for each in numbers
        if asked and each.is_whole
        for place in range(bisect_right(starts, each.start), bisect_left(starts, each.end) + 1)
    }
    pairs = [
        (form, place)
        for form, left in (joined_pairs(words, language) if asked else ())
        if parts.isdisjoint((left, left + 1))
        for place in (left, left + 1)  # it counts as much as both of its words
    ]
    if not text.isascii():
        found = [
            (form, place)
            for word, place in found
            for form in (letter_pairs(word) if is_unspaced(word) else [word])
        ]
    found += [
        (form, place) for word, place in found if not word.isalpha() for form in spellings(word)
    ]
    found = [(form, place) for form, place in found if place not in parts] + pairs
    ranks = {each.digits for each in numbers if asked and each.digits.endswith(RANKS)}
    codes = [*codes_in(text)] if coded else []
    for start, code in (
        *codes,
        *numerals,
        *spelled,
        *((each.start, each.digits) for each in numbers),
    ):
        place = bisect_right(starts, start)
        found += [(form, place) for form in ([code] if code in ranks else spellings(code))]
    return [*dict.fromkeys(found)]


def numbers_among(read: Iterable[Token]) -> frozenset[str]:
    """The numbers and codes among the tokens of a text, in all their spellings."""
    return frozenset(token for token, _ in read if has_digit(token))
