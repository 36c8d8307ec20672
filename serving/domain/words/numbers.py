"""Numbers as they are spoken, in the form in which they are written.

"Fourteen" is `14`, "the third" `3rd`, "nineteen eighty-six" `1986`, "double oh seven" `007`,
"twelve k" `12000`, "1.2 million" `1200000`, "two and a half" `2.5`, "two dozen" `24`. A time
of day is that of a clock with twelve hours, since people seldom say which half of the day they
mean: "half past five", "5:30" and "17:30" are `05:30`, and the last is also `17:30`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import islice, pairwise
from typing import NamedTuple

from text_to_num import alpha2digit, find_numbers

from serving.domain.languages import Language
from serving.domain.words.scripts import MARKS

MIN_DIGITS = 3
"""Fewer in a row are several numbers: "one two", "five six"."""

MAX_WORDS = 2000
MAX_CHARACTERS = 12_000
"""Of a longer text the beginning is read."""

_READ = {
    "danish": "da", "dutch": "nl", "english": "en", "french": "fr",
    "german": "de", "italian": "it", "portuguese": "pt", "spanish": "es",
}  # fmt: skip
"""The languages whose number words are read. Of others, dictated digits are."""

_PRONOUNS = frozenset({"0", "1", "1st"})
"""Words that are no number by themselves: "the one that I like", "oh", "at first"."""

_SCALES = frozenset({"100", "1000", "1000000"})

_WORD = re.compile(f"[0-9]+|(?:[^\\W0-9_]|[{MARKS}])+")
"""As words are elsewhere, but a unit is one of its own: "5pm"."""
_DIGIT = re.compile("[0-9]")
_AMOUNT = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
"""A number that is counted with; thousands of digits are too many even to be one of Python."""
_NEXT = re.compile("[ -]?")
_LISTED = re.compile(r"[ ,\-]{1,2}")
"""The gap between two digits of a number: at most a comma and a blank."""


class Number(NamedTuple):
    """A number in digits, the part of the text that says it, and whether it is all of that.

    A time is not: "from ten to nine" may be one, and not "8:50".
    """

    start: int
    end: int
    digits: str
    is_whole: bool


class _Word(NamedTuple):
    """A word, what is before it, and where it is; as `find_numbers` reads it."""

    word: str
    gap: str
    start: int
    end: int

    def text(self) -> str:
        """The word."""
        return self.word

    def nt_separated(self, _previous: _Word) -> bool:
        """Whether more than a blank or a hyphen is before it."""
        return _NEXT.fullmatch(self.gap) is None

    def not_a_number_part(self) -> bool:
        """Whether it is in digits, which the library does not read."""
        return self.word.isdecimal()


class _Read(NamedTuple):
    """A number, and the places of its first word and of the one behind it."""

    first: int
    behind: int
    digits: str
    is_spoken: bool


def spoken_numbers(text: str, words: Sequence[str], language: Language) -> list[Number]:
    """The numbers of a text that it has in another form, and its times of day.

    Args:
        text: In the normal form, without case.
        words: Those of the text.
        language: Whose words are read.
    """
    if not _may_have_numbers(text, words, language):
        return []
    reader = _Reader(text, language)
    return [
        Number(
            reader.words[each.first].start,
            reader.words[each.behind - 1].end,
            each.digits,
            each.is_spoken,
        )
        for each in reader.found()
    ]


def _may_have_numbers(text: str, words: Sequence[str], language: Language) -> bool:
    """Whether a text has numbers; takes a fifth of the time that it takes to read them."""
    if _DIGIT.search(text):
        return True
    for names in (language.digits.keys(), language.number_names.keys()):
        if not names.isdisjoint(words):
            return True
    code = _READ.get(language.name)
    start = text[:MAX_CHARACTERS]
    return code is not None and alpha2digit(start, code, 0.0) != start


class _Reader:
    """Reads the numbers of a text."""

    def __init__(self, text: str, language: Language) -> None:
        self._language = language
        self.words: list[_Word] = []
        end = 0
        for word in islice(_WORD.finditer(text), MAX_WORDS):
            self.words.append(_Word(word[0], text[end : word.start()], *word.span()))
            end = word.end()
        self._numbers = sorted(self._in_words())
        self._numbers = sorted([*self._numbers, *self._in_digits()])
        self._before = {each.behind: each for each in self._numbers}

    def _in_words(self) -> Iterator[_Read]:
        if code := _READ.get(self._language.name):
            for read in find_numbers(self.words, code, 0.0):
                digits = read.text.strip(".").replace(",", ".")
                yield _Read(read.start, read.end, digits, is_spoken=True)

    def _in_digits(self) -> Iterator[_Read]:
        """Words in digits, and words of dictated digits that are no others: "oh"."""
        read = {place for each in self._numbers for place in range(each.first, each.behind)}
        for place, (word, *_) in enumerate(self.words):
            if place not in read and (digit := self._language.digits.get(word) or word).isdecimal():
                yield _Read(place, place + 1, digit, is_spoken=digit != word)

    def found(self) -> Iterator[_Read]:
        """The numbers: those of several words, and what is part of none of them."""
        long = [*self._found_together()]
        parts = {place for each in long for place in range(each.first, each.behind)}
        yield from long
        for each in self._numbers:
            if each.is_spoken and each.first not in parts and each.digits not in _PRONOUNS:
                yield each
                if "." in each.digits:  # as amounts in digits are
                    yield each._replace(digits=each.digits.partition(".")[0])

    def _found_together(self) -> Iterator[_Read]:
        for run in self._runs():
            yield from _joined(run, [self.words[each.first].gap for each in run])
        for each, after in pairwise([*self._numbers, None]):
            if each is not None and _AMOUNT.fullmatch(each.digits):
                yield from self._scaled(each)
                if each.digits.isdecimal():
                    yield from self._time(each, after)
                    yield from self._count(each, after)
        yield from self._named()

    def _runs(self) -> Iterator[list[_Read]]:
        """Whole numbers that follow each other; "double five" is one with two digits."""
        runs: list[list[_Read]] = [[]]
        for first, behind, digits, is_spoken in self._numbers:
            is_digit = len(digits) == 1 or digits.startswith("0")
            times = self._language.repeats.get(self._word(first - 1), 1) if is_digit else 1
            digits = digits[0] * (times - 1) + digits
            each = _Read(first - (times > 1), behind, digits, is_spoken or times > 1)
            before, gap = runs[-1], self.words[each.first].gap
            is_next = before and each.first == before[-1].behind and _LISTED.fullmatch(gap)
            if not is_next:
                runs.append([])
            if digits.isdecimal():
                runs[-1].append(each)
            else:
                runs.append([])
        return filter(None, runs)

    def _time(self, number: _Read, after: _Read | None) -> Iterator[_Read]:
        """A time of day with this hour: "half past six", "six thirty", "6:30 pm", "six o'clock"."""
        first, behind, hour = number.first, number.behind, int(number.digits)
        if hour > 24 or (hour == 0 and number.is_spoken):
            return
        minutes, is_time = 60 * hour, False
        step, place = self._step(first)
        taken = self._language.clock_before.get(self._word(first - 1), 0)
        linked, end = self._linked(behind)
        if step:
            first, passed = self._minutes(place - 1)
            minutes, is_time = minutes + step * passed, passed > 0
        elif taken or linked:
            first, behind = first - (taken > 0), end
            minutes, is_time = minutes - taken + linked, True
        elif after and after.first == behind and _TWO_DIGITS.fullmatch(after.digits):
            gap = self.words[behind].gap
            is_time = gap == ":" or (gap == " " and after.is_spoken)
            if is_time or (gap == "." and self._half(after.behind) is not None):
                minutes, behind = minutes + int(after.digits), after.behind
        half = self._half(behind)
        if is_time or half is not None:
            yield _Read(first, behind, _clock((minutes - 60) % 720 + 60), is_spoken=False)
            if half:
                yield _Read(first, behind, _clock(minutes % 720 + 720), is_spoken=False)
            elif not 0 < hour <= 12:
                yield _Read(first, behind, _clock(minutes % 1440), is_spoken=False)

    def _step(self, hour: int) -> tuple[int, int]:
        """Whether what is before an hour adds minutes to it (1), or takes them (-1), and its place.

        0 if it does neither.
        """
        for place in (hour - 1, hour - 2):
            if step := self._language.clock_steps.get(self._said(place, hour)):
                return step, place
        return 0, hour

    def _linked(self, behind: int) -> tuple[int, int]:
        """The minutes behind an hour and words that link them to it, and the place behind them.

        None are 0, behind the hour.
        """
        step, place = 0, behind
        while link := self._language.clock_links.get(self._word(place)):
            step, place = link * (step or 1), place + 1
        if step and self._word(place) in self._language.function_words:
            place += 1  # "moins le quart"
        if step and (part := self._language.clock_minutes.get(self._word(place))):
            return step * part, place + 1
        for each in self._numbers:
            if step and each.first == place and _MINUTES.fullmatch(each.digits):
                return step * int(each.digits), each.behind
        return 0, behind

    def _minutes(self, place: int) -> tuple[int, int]:
        """Minutes that are said before a place, with that of their first word; 0 if none are."""
        minutes = self._language.clock_minutes.get(self._word(place), 0)
        if not minutes and (said := self._before.get(place + 1)):
            is_short = said.digits.isdecimal() and len(said.digits) <= 2
            return said.first, int(said.digits) if is_short else 0
        return place, minutes

    def _half(self, behind: int) -> int | None:
        """The hours that what is behind an hour adds to it: 12 for "pm", 0 for "am"; or None."""
        ends = self._language.clock_ends
        said = (self._said(behind, behind + length) for length in (3, 2, 1))
        return next((ends[words] for words in said if words in ends), None)

    def _count(self, number: _Read, after: _Read | None) -> Iterator[_Read]:
        """A number with a part behind it: "two and a half", "two thirds"."""
        first, behind, digits, _ = number
        if after and after.first == behind and (rank := _RANK.match(after.digits)):
            yield _Read(first, after.behind, digits + rank[1], is_spoken=False)
        part, end = self._part(behind)
        if part and not self._scale(end)[0]:
            yield _Read(first, end, f"{int(digits) + Decimal(part)}", is_spoken=False)

    def _part(self, behind: int) -> tuple[float, int]:
        """The part of a whole behind a number, "and a half" or "et demi", with the place behind."""
        for place in (behind + 2, behind + 1):
            minutes = self._language.clock_minutes.get(self._word(place))
            link = [self._word(each) for each in range(behind, place)]
            if minutes and self._language.function_words.issuperset(link):
                return minutes / 60, place + 1
        return 0, behind

    def _scaled(self, number: _Read) -> Iterator[_Read]:
        """A number of thousands and the like: "12 k", "5 million", "1.2 million", "1.5k"."""
        first, behind, digits, is_spoken = number
        if self._is_fraction(first):
            return
        if not is_spoken and self._is_fraction(behind):
            digits, behind = f"{digits}.{self._word(behind)}", behind + 1
        part, end = self._part(behind)
        scale, behind = self._scale(end)
        if scale:
            amount = (Decimal(digits) + Decimal(part)) * scale
            yield _Read(first, behind, f"{int(amount)}", is_spoken=True)

    def _is_fraction(self, place: int) -> bool:
        """Whether digits are behind a decimal point."""
        return (
            place > 0
            and self._word(place).isdecimal()
            and self._word(place - 1).isdecimal()
            and self.words[place].gap in (".", ",")
        )

    def _scale(self, place: int) -> tuple[int, int]:
        """The factor of a number before this place, and the place behind; or 0."""
        if self._word(place) == "k":
            return 1000, place + 1
        scale = self._before.get(place + 1)
        if scale and scale.first == place and scale.is_spoken and scale.digits in _SCALES:
            return int(scale.digits), scale.behind
        return 0, place

    def _named(self) -> Iterator[_Read]:
        """Numbers with names: "noon", "two dozen", "half a dozen"."""
        for place, (word, *_) in enumerate(self.words):
            named = self._language.number_names.get(word, "")
            if not named.isdecimal():
                if named:
                    yield _Read(place, place + 1, named, is_spoken=False)
                continue
            first, dozens = place, 1.0
            if (many := self._before.get(place)) and _AMOUNT.fullmatch(many.digits):
                first, dozens = many.first, float(many.digits)
            for before in (place - 1, place - 2):
                if part := self._language.clock_minutes.get(self._word(before)):
                    first, dozens = before, part / 60
            yield _Read(first, place + 1, f"{int(dozens * int(named))}", is_spoken=True)

    def _said(self, start: int, end: int) -> str:
        return " ".join(self._word(place) for place in range(start, end))

    def _word(self, place: int) -> str:
        return self.words[place].word if 0 <= place < len(self.words) else ""


_TWO_DIGITS = re.compile("[0-5][0-9]")
"""Minutes as they are written; an ordinal ("4º") is none."""

_MINUTES = re.compile("[1-5]?[05]|[1-5][1-9]")
"""Minutes behind a link; fewer are mostly another number: "tres y cuatro"."""

_RANK = re.compile("([0-9]+)[^0-9.]+")
"""An ordinal."""


def _joined(run: Sequence[_Read], gaps: Sequence[str]) -> Iterator[_Read]:
    """The numbers of several that are said one after the other: digit by digit, or in pairs."""
    digits = "".join(each.digits for each in run)
    # The library reads "oh seven" as one number.
    is_dictated = len(digits) == len(run) or all(
        len(set(it.digits)) == 1 or it.digits.startswith("0") for it in run
    )
    if not any(it.is_spoken for it in run) and len(digits) > len(run):
        return
    is_number = is_dictated or (
        "," not in "".join(gaps[1:]) and all(len(each.digits) <= 2 for each in run[1:])
    )
    is_new = len(run) > 1 or run[0].behind - run[0].first > 1
    if is_number and is_new and len(digits) >= MIN_DIGITS:
        yield _Read(run[0].first, run[-1].behind, digits, is_spoken=True)
    for left, right in pairwise(run):
        if len(left.digits) == len(right.digits) == 2 < len(run):
            yield _Read(left.first, right.behind, left.digits + right.digits, is_spoken=True)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"
