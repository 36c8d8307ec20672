"""Numbers that are dictated digit by digit: "five five two zero", "double o seven"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from serving.domain.languages import Language
from serving.domain.words.scripts import WORD

MIN_DIGITS = 3
"""Fewer in a row are ordinary numbers."""

_APART = re.compile(r"[ ,\-]{1,2}")
"""What is between two digits of a number: at most a comma and a blank."""


def may_be_dictated(words: Sequence[str], language: Language) -> bool:
    """Whether a text has two words for digits one after the other; a fast check."""
    if language.digits.keys().isdisjoint(words):
        return False
    places = [place for place, word in enumerate(words) if word in language.digits]
    return any(right - left == 1 for left, right in pairwise(places))


def dictated_numbers(text: str, language: Language) -> Iterator[tuple[int, str]]:
    """The dictated numbers of a text without case, each with its start."""
    start, end, digits, times = 0, 0, "", 1
    for word in WORD.finditer(text):
        digit, repeated = language.digits.get(word[0], ""), language.repeats.get(word[0], 1)
        goes_on = (digit or repeated > 1) and _APART.fullmatch(text, end, word.start())
        if not goes_on:
            if len(digits) >= MIN_DIGITS:
                yield start, digits
            start, digits, times = word.start(), "", 1
        if digit or repeated > 1:
            digits += digit * times
            times, end = repeated, word.end()
    if len(digits) >= MIN_DIGITS:
        yield start, digits
