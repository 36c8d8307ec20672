"""The words of a language that parts of the service know."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import digits
from typing import Any, TypeAlias

NEVER = re.compile(r"(?!)")
"""Finds nothing."""

ANY_OF = r"\b(?:{})\b"
"""Finds one of these words."""


Rewriting: TypeAlias = tuple[re.Pattern[str], str]
"""A pattern, and its replacement."""

MONTHS = """
January|February|March|April|May|June|July|August|September|October|November|December
""".strip()
WEEKDAYS = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"

_IN_RULES = {
    "{n}": r"(\d+|an?|the|a few|a couple of)",
    "{u}": "((?:minute|hour|day|week|month|year)s?)",
    "{m}": f"({MONTHS})",
    "{w}": f"({WEEKDAYS})",
    "{p}": "(morning|afternoon|evening|night)",
}
"""Groups that rules of times name: numbers, units, months, weekdays, parts of a day."""


@dataclass(frozen=True, slots=True)
class Language:
    """The words of a language, in lower case; without any, each rule that needs them is off.

    Args:
        name: That of its stemmer (Snowball), and of PostgreSQL's text search configuration.
        function_words: The search by words asks for them only in a question of nothing else.
        stop_words: Words of a question that name nothing.
        not_names: Words that are capitalised without being names, at the start of a sentence or
            always; `calendar` and `connectors` among them.
        ordinary_words: The usual words: no names where a sentence begins.
        known_words: The same and less usual ones: no misheard names, and the parts of compounds.
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
        was: Finds words of a question that may ask for what once held, or for what holds.
        single: Finds words of a question that one value answers, the present one.
        who: Finds the start of a question for who or which of several somebody is, with the name.
        begins: Finds words of a question for what begins with a code.
        whether: Finds the first word of a question for yes or no.
        values: For a question that asks for a value of a kind, and a text that has one.
        signs: Finds, by their names, words that tell how a statement stands to an older one, in a
            text without case: that it adds, supposes, corrects.
        about_asker: Finds a question for what is known of who asks, which has no other subject.
        about_self: Finds what somebody tells of themselves that lasts: "I am", "my name is".
        questions: Finds a question at the start of a text, even without a question mark.
        digits: The digit of each word that dictated numbers have; each digit is its own.
        repeats: Words before a dictated digit, and how often it is meant ("double seven").
        names_letter: Words between a letter and a name that begins with it, as alternatives of a
            pattern.
        number_names: The number or the time of day of words that name one ("dozen", "noon").
        clock_minutes: Words for parts of an hour, which are also those of a whole.
        clock_steps: One or two words between minutes and their hour: 1 if the minutes are after it,
            else -1.
        clock_before: Words before an hour, and the minutes that they take from it ("halb sechs").
        clock_links: Words between an hour and its minutes, as `clock_steps` ("seis y media").
        clock_ends: One to three words behind an hour, and the hours that they add.
        lower: The lower case of letters that have another one in this language.
        compounds: Whether words are written as one, as in "Waschmaschine".
        homophones: The words that sound like a word.
        plurals: Rewrites forms of a word that its stemmer leaves apart.
        times: Words of times in English, by those of this language without case.
        time_rules: Puts English words of times in their order.
    """

    name: str
    function_words: frozenset[str] = frozenset()
    stop_words: frozenset[str] = frozenset()
    not_names: frozenset[str] = frozenset()
    ordinary_words: frozenset[str] = frozenset()
    known_words: frozenset[str] = frozenset()
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
    was: re.Pattern[str] = NEVER
    single: re.Pattern[str] = NEVER
    who: re.Pattern[str] = NEVER
    begins: re.Pattern[str] = NEVER
    whether: re.Pattern[str] = NEVER
    values: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = ()
    signs: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    about_asker: re.Pattern[str] = NEVER
    about_self: re.Pattern[str] = NEVER
    questions: re.Pattern[str] = NEVER
    digits: Mapping[str, str] = field(default_factory=lambda: _digits_of(""))
    repeats: Mapping[str, int] = field(default_factory=dict)
    names_letter: str = ""
    number_names: Mapping[str, str] = field(default_factory=dict)
    clock_minutes: Mapping[str, int] = field(default_factory=dict)
    clock_steps: Mapping[str, int] = field(default_factory=dict)
    clock_before: Mapping[str, int] = field(default_factory=dict)
    clock_links: Mapping[str, int] = field(default_factory=dict)
    clock_ends: Mapping[str, int] = field(default_factory=dict)
    lower: Mapping[str, str] = field(default_factory=dict)
    compounds: bool = False
    homophones: Mapping[str, Sequence[str]] = field(default_factory=dict)
    plurals: Sequence[Rewriting] = ()
    times: Mapping[str, str] = field(default_factory=dict)
    time_rules: Sequence[Rewriting] = ()

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


def read_language(
    name: str, file: str, ordinary_words: str = "", further_words: str = ""
) -> Language:
    """The language of a file in TOML, whose fields are those of `Language`.

    Its function words name nothing either, unless the file says which do not. Lists are separated
    by blanks; those for fields that are patterns are lists of patterns, in which "_" is a blank.
    What a file leaves out is empty.
    """
    given: dict[str, Any] = defaultdict(str, tomllib.loads(file))
    function_words = given["function_words"]
    calendar, connectors = _words(given["calendar"]), _words(given["connectors"])
    return Language(
        name,
        function_words=_words(function_words),
        stop_words=_words(given["stop_words"] or function_words),
        not_names=_words(given["not_names"] or function_words) | calendar | connectors,
        ordinary_words=_words(ordinary_words),
        known_words=_words(f"{ordinary_words} {further_words}"),
        ordinary_forms=_pattern("{}", given["ordinary_forms"]),
        openings=_words(given["openings"]),
        calendar=calendar,
        connectors=connectors,
        abbreviations=_words(given["abbreviations"]),
        possessive=_pattern(r"(?:{})\b", given["possessive"]),
        months=tuple(given["months"].split()),
        weekdays=tuple(given["weekdays"].split()),
        changes=_pattern(ANY_OF, given["changes"], re.NOFLAG),
        past=_pattern(ANY_OF, given["past"]),
        was=_pattern(ANY_OF, given["was"]),
        single=_pattern(ANY_OF, given["single"]),
        who=_pattern(ANY_OF, given["who"]),
        begins=_pattern(ANY_OF, given["begins"]),
        whether=_pattern(ANY_OF, given["whether"]),
        values=tuple(
            (_pattern(ANY_OF, each["asks"]), _pattern(ANY_OF, each["has"]))
            for each in given["values"]
        ),
        signs={
            sign: _pattern(ANY_OF, words, re.NOFLAG)
            for sign, words in (given["signs"] or {}).items()
        },
        about_asker=_pattern(r"\W*(?:\w+,? )?(?:{})\W*", given["about_asker"]),
        about_self=_pattern(ANY_OF, given["about_self"]),
        questions=_pattern(r"(?:{})\b[^.!]*[.!]?", given["questions"]),
        digits=_digits_of(given["digits"]),
        repeats=given["repeats"] or {},
        names_letter=given["names_letter"],
        number_names=_numbers_of(given["number_names"]),
        clock_minutes=given["clock_minutes"] or {},
        clock_steps=given["clock_steps"] or {},
        clock_before=given["clock_before"] or {},
        clock_links=given["clock_links"] or {},
        clock_ends=given["clock_ends"] or {},
        lower=given["lower"] or {},
        compounds=bool(given["compounds"]),
        homophones=_homophones(given["homophones"]),
        plurals=_rewritings(given["plurals"]),
        times=_times(given["times"]),
        time_rules=_rewritings(given["time_rules"]),
    )


def _words(words: str) -> frozenset[str]:
    return frozenset(words.casefold().split())


def _times(lines: str) -> dict[str, str]:
    """Of lines such as "gestern | vortags = yesterday"; {w} is each day of the week before it."""
    found: dict[str, str] = {}
    for line in filter(None, lines.splitlines()):
        words, _, english = line.partition(" = ")
        days = {word: day for word, day in found.items() if day in WEEKDAYS.split("|")}
        for word, day in days.items() if "{w}" in line else [("", "")]:
            found |= {
                each.strip().replace("{w}", word).casefold(): english.replace("{w}", day).strip()
                for each in words.split("|")
            }
    return found


def _homophones(lines: str) -> dict[str, tuple[str, ...]]:
    """Of lines such as "rain reign rein", the others of each word."""
    groups = [line.split() for line in filter(None, lines.splitlines())]
    return {
        word: tuple(other for other in group if other != word) for group in groups for word in group
    }


def _rewritings(lines: str) -> tuple[Rewriting, ...]:
    """Of lines such as "before {n} = {n} ago", a pattern and its replacement."""
    for name, group in _IN_RULES.items():
        lines = lines.replace(name, group)
    pairs = [line.split(" = ") for line in filter(None, lines.splitlines())]
    return tuple((re.compile(pattern), replacement) for pattern, replacement in pairs)


def _digits_of(pairs: str) -> dict[str, str]:
    """The digits of a list such as `"one=1 two=2"`, by their words."""
    return dict(zip(digits, digits, strict=True)) | _numbers_of(pairs)


def _numbers_of(pairs: str) -> dict[str, str]:
    """The numbers of a list such as `"dozen=12 noon=12:00"`, by their words."""
    return dict(pair.split("=") for pair in pairs.split())


def _pattern(form: str, patterns: str, flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    if not patterns:
        return NEVER
    return re.compile(form.format("|".join(patterns.split()).replace("_", " ")), flags)
