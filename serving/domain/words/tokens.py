"""The words of a text: one function for what is stored and for what is asked.

What a reader may write in several ways has the tokens of each way (`codes.py`, `dictation.py`), and
a script without spaces has those of its letters (`scripts.py`).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TypeAlias

from serving.domain.languages import Language
from serving.domain.words.codes import codes_in, has_codes, spellings, without_grouping
from serving.domain.words.dictation import dictated_numbers, may_be_dictated
from serving.domain.words.normal_form import normal_form
from serving.domain.words.scripts import is_unspaced, letter_pairs, word_starts, words_in

Token: TypeAlias = tuple[str, int]
"""A word without case, and its place among the words of its text, from 1; several tokens of one
word have the same place."""


def tokens(text: str, language: Language) -> list[Token]:
    """The distinct tokens of a text. Codes and numbers have those of all their spellings.

    The language is that of the tenant: its rules of case, and its words for digits.
    """
    text = language.folded(normal_form(text)).replace("_", "-")
    coded = has_codes(text)
    if coded:
        text = without_grouping(" ".join(text.split()))
    words = words_in(text)
    found = [*zip(words, range(1, len(words) + 1), strict=True)]
    dictated = may_be_dictated(words, language)
    if not (coded or dictated) and text.isascii():
        return found
    if not text.isascii():
        found = [
            (form, place)
            for word, place in found
            for form in (letter_pairs(word) if is_unspaced(word) else [word])
        ]
    found += [
        (form, place) for word, place in found if not word.isalpha() for form in spellings(word)
    ]
    codes = [*codes_in(text)] if coded else []
    codes += dictated_numbers(text, language) if dictated else []
    if codes:
        starts = word_starts(text)
        for start, code in codes:
            place = bisect_right(starts, start)
            found += [(form, place) for form in spellings(code)]
    return [*dict.fromkeys(found)]
