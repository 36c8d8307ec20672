"""Words that are spelled letter by letter: "n o v a k", "m as in Mike, a, double t"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from serving.domain.languages import ENGLISH, Language, language_of

MIN_LETTERS = 3
"""Fewer letters in a row are words of their own: "I a", "plan b c"."""

_MAY_SPELL = re.compile(r"\b\w[ .,\-]{1,2}\w\b")
_NEVER_REPEATED = r"(?!)"


def spelled_words(text: str, words: Sequence[str], language: Language) -> list[tuple[int, str]]:
    """The spelled words of a text without case, each with its start.

    Args:
        text: In the normal form.
        words: Those of the text.
        language: Whose words name letters ("m as in Mike") and repeat them ("double t").
    """
    if sum(len(word) == 1 for word in words) < MIN_LETTERS:
        return []
    run, letter = _patterns(language.name)
    return [
        (found.start(), "".join(_letters(found[0], letter, language)))
        for found in run.finditer(text)
    ]


def with_spelled_words(text: str) -> str:
    """The text with words that are spelled in English speech written as others: not "U.S.A."."""
    if _MAY_SPELL.search(text) is None:
        return text
    run, letter = _patterns(ENGLISH.name)
    return run.sub(
        lambda found: (
            "".join(_letters(found[0], letter, ENGLISH)) if found["gap"] in " -" else found[0]
        ),
        text,
    )


def _letters(text: str, letter: re.Pattern[str], language: Language) -> Iterator[str]:
    for found in letter.finditer(text):
        yield found["letter"] * language.repeats.get(found["times"] or "", 1)


@cache
def _patterns(name: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A run of letters, and a letter with what names it."""
    language = language_of(name)
    times = "|".join(language.repeats) or _NEVER_REPEATED
    names = rf"(?:,? (?:{language.names_letter}) [^\W\d_]+)?" if language.names_letter else ""
    plain = rf"(?:(?:{times}) )?[^\W\d_](?!\w){names}"
    further = rf"(?P<gap>[ .,\-]{{1,2}}){plain}(?:(?P=gap){plain}){{{MIN_LETTERS - 2},}}"
    run = re.compile(rf"(?<![\w'’]){plain}{further}")
    letter = re.compile(rf"(?:(?P<times>{times}) )?(?P<letter>[^\W\d_])(?!\w){names}")
    return run, letter
