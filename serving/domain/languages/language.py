"""The words of a language that parts of the service know."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from string import digits

NEVER = re.compile(r"(?!)")
"""Finds nothing."""


@dataclass(frozen=True, slots=True)
class Language:
    """The words of a language, in lower case; without any, each rule that needs them is off.

    Args:
        name: That of its stemmer (Snowball), and of PostgreSQL's text search configuration.
        function_words: The search by words asks for them only in a question of nothing else.
        stop_words: Words of a question that name nothing.
        not_names: Words that are capitalised without being names, at the start of a sentence or
            always; `calendar` and `connectors` among them.
        ordinary_words: The usual words: no misheard names, and no names where a sentence begins.
        ordinary_forms: Finds further words that are no names where a sentence begins, by form.
        openings: Names that are mostly another word at the start of a sentence.
        calendar: Days, months and seasons: no names, except within a longer one ("Black Friday").
        connectors: Words within a name, between its capitals.
        abbreviations: Words whose full stop ends no name.
        possessive: What is added to a name to say that it owns something.
        months: The names of months, short ones too.
        weekdays: The names of the days of a week.
        changes: Finds words by which people say that something has changed, in a text without case;
            many texts are searched for it, and ignoring case takes several times as long.
        past: Finds words of a question that asks for what once held.
        single: Finds words of a question that one value answers, the present one.
        values: For a question that asks for a value of a kind, and a text that has one.
        questions: Finds a question at the start of a text, even without a question mark.
        digits: The digit of each word that dictated numbers have; each digit is its own.
        repeats: Words before a dictated digit, and how often it is meant ("double seven").
        lower: The lower case of letters that have another one in this language.
    """

    name: str
    function_words: frozenset[str] = frozenset()
    stop_words: frozenset[str] = frozenset()
    not_names: frozenset[str] = frozenset()
    ordinary_words: frozenset[str] = frozenset()
    ordinary_forms: re.Pattern[str] = NEVER
    openings: frozenset[str] = frozenset()
    calendar: frozenset[str] = frozenset()
    connectors: frozenset[str] = frozenset()
    abbreviations: frozenset[str] = frozenset()
    possessive: re.Pattern[str] = NEVER
    months: tuple[str, ...] = ()
    weekdays: tuple[str, ...] = ()
    changes: re.Pattern[str] = NEVER
    past: re.Pattern[str] = NEVER
    single: re.Pattern[str] = NEVER
    values: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = ()
    questions: re.Pattern[str] = NEVER
    digits: Mapping[str, str] = field(default_factory=lambda: digits_of(""))
    repeats: Mapping[str, int] = field(default_factory=dict)
    lower: Mapping[str, str] = field(default_factory=dict)

    def is_ordinary(self, word: str) -> bool:
        """Whether a word in lower case may be an ordinary one, by the list or by its form."""
        if not self.ordinary_words:
            return True
        return word in self.ordinary_words or self.ordinary_forms.search(word) is not None

    def folded(self, text: str) -> str:
        """The text without case: `"ISPARTA"` and `"ısparta"` are equal in Turkish."""
        for capital, small in self.lower.items():
            text = text.replace(capital, small)
        return text.casefold().replace("i\u0307", "i")


def word_set(words: str) -> frozenset[str]:
    """The words of a list that is separated by blanks, without case."""
    return frozenset(words.casefold().split())


def digits_of(pairs: str) -> dict[str, str]:
    """The digits of a list such as `"one=1 two=2"`, by their words."""
    return dict(zip(digits, digits, strict=True)) | dict(pair.split("=") for pair in pairs.split())


def any_of(words: str, more: str = "", flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    """Finds one of the words, or what else `more` matches; "_" is a blank within one."""
    parts = [word.replace("_", " ") for word in words.split()]
    return re.compile(rf"\b(?:{'|'.join([*parts, *([more] if more else [])])})\b", flags)


def read_language(name: str, file: str) -> Language:
    """The language of a file in TOML, whose fields are those of `Language`.

    Its function words name nothing either. Lists are separated by blanks; in those of `changes`,
    `past`, `single` and `values` each is a pattern (`any_of`).
    """
    given = tomllib.loads(file)
    words = word_set(given["function_words"])
    return Language(
        name,
        function_words=words,
        stop_words=words,
        not_names=words,
        changes=any_of(given["changes"], flags=re.NOFLAG) if "changes" in given else NEVER,
        past=any_of(given["past"]) if "past" in given else NEVER,
        single=any_of(given["single"]) if "single" in given else NEVER,
        values=tuple(
            (any_of(each["asks"]), any_of(each["has"])) for each in given.get("values", ())
        ),
        digits=digits_of(given["digits"]),
        repeats=given.get("repeats", {}),
        lower=given.get("lower", {}),
    )
