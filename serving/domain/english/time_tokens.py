"""The tokens of a sentence of English, and the numbers, counts and units among them.

A method of `Tokens` that reads something returns it with the place behind it, or None if it does
not stand there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from serving.domain.english import time_words as words
from serving.domain.questions.calendar import Unit

_PADDING = 16
"""More than the words that any rule looks ahead, or back."""

_DIGITS = frozenset("0123456789q'")
_APOSTROPHE = re.compile("[\u2018\u2019]")
_END = frozenset(".!?;\n")

_TOKEN = re.compile(
    r"""
    (?P<iso>(?<![\w.])\d{4}([-/])\d\d\2\d\d(?![^\WT]|[-/]\d))
  | (?P<dotted>(?<![\w.])(?:\d{1,2}\.\d{1,2}\.\d{4}|\d\d\.\d\d\.\d\d)(?!\w|\.\d))
  | (?P<slashed>(?<![\w.])\d{1,2}/\d{1,2}/(?:\d{4}|\d\d)(?![\w/]))
  | (?P<short>(?<![\w./])\d{1,2}(?:/\d{1,2}(?![\w/])|\.\d{1,2}\.(?!\w)))
  | (?P<number>(?<![\w.])(?:\d+(?:st|nd|rd|th|s)?|['\u2018\u2019]\d\ds?)(?![\w]|\.\d))
  | (?P<decimal>\d+\.\d+)
  | (?P<word>q[1-4]\b|[^\W\d_]+(?:['’][^\W\d_]+)?)
  | (?P<other>\S)
    """,
    re.IGNORECASE | re.VERBOSE,
)


class Token(NamedTuple):
    """A word in lower case without "'s", or a number, a date or a sign."""

    text: str
    written: str
    kind: str
    place: slice
    possessive: bool


class Counted(NamedTuple):
    """A range of a number: the least and the most."""

    low: int
    high: int


def sentences(text: str) -> Iterator[list[Token]]:
    """The words and signs of each sentence."""
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        written = match.group()
        if written == "." and tokens and tokens[-1].text in words.SHORTENED:
            continue
        if written in _END:
            yield tokens
            tokens = []
            continue
        stem, apostrophe, rest = _APOSTROPHE.sub("'", written.lower()).partition("'")
        possessive = apostrophe == "'" and rest == "s"
        folded = stem if possessive else stem + apostrophe + rest
        if written == "Sat" and tokens:
            folded = "saturday"  # and not the past of "sit"
        place = slice(match.start(), match.end())
        tokens.append(Token(folded, written, str(match.lastgroup), place, possessive))
    yield tokens


def full_year(number: int) -> int:
    """The year of its last two digits, from 1950 to 2049; others stay."""
    return number if number >= 100 else number + (2000 if number < 50 else 1900)


class Tokens:
    """The tokens of one sentence by their places. Beyond the ends the words are empty."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._words = [token.text for token in tokens] + [""] * _PADDING

    def _word(self, at: int) -> str:
        return self._words[at]

    def _is(self, at: int, *alternatives: str) -> bool:
        return self._words[at] in alternatives

    def _are(self, at: int, named: Sequence[str]) -> bool:
        return self._words[at : at + len(named)] == list(named)

    def _kind(self, at: int) -> str:
        return self._tokens[at].kind if 0 <= at < len(self._tokens) else ""

    def _is_possessive(self, at: int) -> bool:
        return 0 <= at < len(self._tokens) and self._tokens[at].possessive

    def _is_capital(self, at: int) -> bool:
        return at > 0 and self._tokens[at].written[:1].isupper()

    def _can_begin(self, at: int) -> bool:
        return self._words[at] in words.BEGINNING or self._words[at][0] in _DIGITS

    def _behind(self, at: int, *optional: str) -> int:
        """The place behind these words, of which each may be there, in order."""
        for word in optional:
            at += self._words[at] == word
        return at

    def _is_led(self, at: int) -> bool:
        """Whether a preposition leads to this place."""
        return self._word(at - 1 - self._is(at - 1, "the")) in words.LEADING

    def _is_repeated(self, at: int) -> bool:
        """Whether "of each" or "of every" stands here."""
        return self._is(at, "of") and self._is(at + 1, "each", "every")

    def _ends_before(self, at: int) -> bool:
        """Whether what stands here can follow a time, and is not what a number counts."""
        if at >= len(self._tokens):
            return True
        is_name = self._is_capital(at) and not (self._is_weekday(at) or self._month_number(at))
        contracted = self._word(at).partition("'")[0]  # "they'll"
        follows = self._word(at) in words.FOLLOWING or contracted in words.FOLLOWING
        return self._kind(at) == "other" or follows or is_name

    def _is_weekday(self, at: int) -> bool:
        return self._word(at) in words.WEEKDAYS or self._word(at) in words.SHORT_WEEKDAYS

    def _month_number(self, at: int) -> int | None:
        word = self._word(at)
        return words.MONTHS.get(word) or words.SHORT_MONTHS.get(word)

    def _year_number(self, at: int) -> int | None:
        word = self._word(at)
        if re.fullmatch(r"'\d\d", word):
            return full_year(int(word[1:]))
        return int(word) if len(word) == 4 and word.isdigit() and 1800 <= int(word) < 2200 else None

    def _day_number(self, at: int) -> tuple[int, int, bool] | None:
        """A day of a month, the place behind it, and whether it is an ordinal."""
        word = self._word(at)
        if word[:1].isdigit():
            digits = re.fullmatch(r"(\d{1,2})(st|nd|rd|th)?", word)
            number = int(digits[1]) if digits else 0
            return (number, at + 1, bool(digits and digits[2])) if 1 <= number <= 31 else None
        tens = words.TENS.get(word)
        if tens is not None:
            place = self._behind(at + 1, "-")
            ones = words.ORDINALS.get(self._word(place), 10)
            return (tens + ones, place + 1, True) if ones < 10 and tens + ones <= 31 else None
        number = words.ORDINALS.get(word, 0)
        return (number, at + 1, True) if number else None

    def _count(self, at: int) -> tuple[Counted, int] | None:
        """A count, or two between which it is: "two or three", "2-3", "1.5", "two and a half"."""
        if (first := self._one_count(at)) is None:
            return None
        count, behind = first
        if self._are(behind, ("and", "a", "half")):
            return Counted(count.low, count.high + 1), behind + 3
        is_range = self._is(behind, "or", "to", "until", "-", "–")
        if is_range and (last := self._one_count(behind + 1)) and last[0].high > count.high:
            return Counted(count.low, last[0].high), last[1]
        return first

    def _one_count(self, at: int) -> tuple[Counted, int] | None:
        start = self._behind(at, "a", "an")
        word = self._word(start)
        if word in words.VAGUE_COUNTS:
            return Counted(*words.VAGUE_COUNTS[word]), self._behind(start + 1, "of", "more")
        if word == "half" or self._is(start - 2, "half"):
            return None  # "half a day", of which "a day" is no count
        if start > at:
            return Counted(1, 1), start
        if word.isdigit():
            return (Counted(int(word), int(word)), at + 1) if len(word) <= 3 else None
        if self._kind(at) == "decimal":
            whole = int(float(word))
            return (Counted(whole, whole + 1), at + 1) if whole < 1000 else None
        if word in words.TENS:
            place = self._behind(at + 1, "-")
            ones = words.ONES.get(self._word(place), 0)
            number, behind = words.TENS[word], at + 1
            if 0 < ones < 10:
                number, behind = number + ones, place + 1
            return Counted(number, number), behind
        number = words.ONES.get(word, 0)
        return (Counted(number, number), at + 1) if number else None

    def _count_and_unit(self, at: int) -> tuple[Counted, Unit, int] | None:
        if self._is(at, "half") and self._is(at + 1, "a", "an") and self._is(at + 2, "year"):
            return Counted(6, 6), Unit.MONTH, at + 3
        if self._are(at, ("half", "an", "hour")):
            return Counted(30, 30), Unit.MINUTE, at + 3
        counted = self._count(at)
        if counted is None or (unit := self._unit(counted[1], one=False)) is None:
            return None
        count, (times, step, behind) = counted[0], unit
        return Counted(count.low * times.low, count.high * times.high), step, behind

    def _unit(self, at: int, *, one: bool) -> tuple[Counted, Unit, int] | None:
        """A unit, alone or in the plural unless it must be one; a fortnight is two weeks."""
        word = self._word(at)
        if not one and word == "centuries":
            word = "century"
        found = words.UNITS.get(word if one else word.removesuffix("s"))
        return found and (Counted(found[0], found[0]), found[1], at + 1)
