"""A grammar of times in English: "in the last three days", "the Friday after Easter".

By recursive descent: each rule is a method of `Sentence` that reads from a place, and returns what
it read and the place behind that, or None.

    expression = "between" time "and" time | "from" time "to" time
               | ("since" | "before" | "until" | "by" | "after" | "around") time | time
    time       = ( distance | part | unit of | absolute | relative | counted | recurring | year )
                 [ part of a day | day within it ]
    distance   = (count unit | recurring) ("after" | "before" | "from") time
    part       = ("early" | "end of" | "first week of" | "second Tuesday of" ...) time
    unit of    = ("week" | "month" | "weekend" ...) "of" time
    relative   = "yesterday" | "tonight" | ("last" | "this" | "next") [count] (unit | recurring)
    counted    = count (unit | recurring) "ago" | "in" count unit
    recurring  = (weekday | month | day of a month | season | holiday) [ relative | year ]

Libraries that were tried read one instant each and not a span, take milliseconds, or read every
"may" as a month.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from dateutil.relativedelta import relativedelta

from serving.adapters.text_analysis import english_time_words as words
from serving.domain.questions import calendar
from serving.domain.questions.calendar import FIRST, LAST, Recurring, Span, Unit

_DAY = timedelta(days=1)
_WEEK = timedelta(weeks=1)
_LONGEST_MONTH = timedelta(days=31)
_AROUND_A_DAY = timedelta(days=3)
_PADDING = 16
"""More than the words that any rule looks ahead, or back."""

MAX_DEPTH = 4
"""The times within a time: "the Friday after the first week of last May" has three."""

MAX_RANK_IN_DIGITS = 3
MAX_RANK_IN_WORDS = 10
"""An ordinal up to this may be that of anything: "the 2nd, please", "she was the fourth"."""

_DIGITS = frozenset("0123456789q")
_END = frozenset(".!?;\n")

_TOKEN = re.compile(
    r"""
    (?P<iso>(?<![\w.])\d{4}-\d\d-\d\d(?![\w]))
  | (?P<dotted>(?<![\w.])\d{1,2}\.\d{1,2}\.\d{4}(?!\w|\.\d))
  | (?P<slashed>(?<![\w.])\d{1,2}/\d{1,2}/\d{4}(?!\w))
  | (?P<short>(?<![\w./])\d{1,2}(?:/\d{1,2}(?![\w/])|\.\d{1,2}\.(?!\w)))
  | (?P<number>(?<![\w.])\d+(?:st|nd|rd|th|s)?(?![\w]|\.\d))
  | (?P<word>q[1-4]\b|[^\W\d_]+(?:['’][^\W\d_]+)?)
  | (?P<other>\S)
    """,
    re.IGNORECASE | re.VERBOSE,
)


class Tense(Enum):
    """Whether a sentence is about the past or the future."""

    PAST = "past"
    FUTURE = "future"


class Token(NamedTuple):
    """A word in lower case without "'s", or a number, a date or a sign."""

    text: str
    written: str
    kind: str
    place: slice
    possessive: bool


class _Counted(NamedTuple):
    """How many, at least and at most."""

    low: int
    high: int


_Choice = Callable[[Recurring], Span | None]
"""Chooses one of what comes again."""


def sentences(text: str) -> Iterator[list[Token]]:
    """The words and signs of each sentence."""
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        written = match.group()
        kind = str(match.lastgroup)
        is_short = tokens and tokens[-1].text in words.SHORTENED
        if written == "." and is_short:
            continue
        if written in _END:
            yield tokens
            tokens = []
            continue
        stem, apostrophe, rest = written.lower().replace("’", "'").partition("'")
        possessive = apostrophe == "'" and rest == "s"
        folded = stem if possessive else stem + apostrophe + rest
        place = slice(match.start(), match.end())
        tokens.append(Token(folded, written, kind, place, possessive))
    yield tokens


class Sentence:
    """Reads the times of one sentence."""

    def __init__(
        self, tokens: Sequence[Token], now: datetime, usual: Tense, *, southern: bool
    ) -> None:
        self._tokens = tokens
        # Beyond the last word, and before the first, there is no word.
        self._words = [token.text for token in tokens] + [""] * _PADDING
        self._now = now
        self._today = Unit.DAY.around(now)
        self._seasons = {
            name: calendar.month_of_year((month + 6 * southern - 1) % 12 + 1, 3)
            for name, month in words.NORTHERN_SEASONS.items()
        }
        self._usual = usual
        self._depth = 0
        self._tense = self._tense_of(self._words)

    def times(self) -> Iterator[tuple[Span, int, int]]:
        """Each time, with the places of its first token and of the one behind it."""
        at = 0
        while at < len(self._tokens):
            try:
                read = self._expression(at) if self._can_begin(at) else None
                if read is not None and self._usual is Tense.FUTURE:
                    read = self._in_its_clause(at, read)
            except (OverflowError, ValueError):
                read = None  # outside of Python's calendar
            if read is None:
                at += 1
                continue
            span, behind = read
            yield span, at, behind
            at = behind

    def _in_its_clause(self, at: int, read: tuple[Span, int]) -> tuple[Span, int]:
        """The time by the tense of its clause, if that has more than the time."""
        of_sentence = self._tense
        clause = self._clause(at)
        if len(clause) > read[1] - at + 3:
            self._tense = self._tense_of(clause)
        if self._is(at - 1, "in") and read[0].length > _WEEK and self._is_past(clause):
            # Of what is arranged "moved to May" is ahead, and "we moved in May" is over.
            self._tense = Tense.PAST
        if self._tense is not of_sentence:
            read = self._expression(at) or read
            self._tense = of_sentence
        return read

    # ---- words

    def _word(self, at: int) -> str:
        return self._words[at]

    def _is(self, at: int, *alternatives: str) -> bool:
        return self._words[at] in alternatives

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

    def _is_capital(self, at: int) -> bool:
        return at > 0 and self._tokens[at].written[:1].isupper()

    def _is_being(self, at: int) -> bool:
        """Whether "is", "was" or a word with "'s" stands here."""
        return self._is(at, "is", "was") or (at >= 0 and self._tokens[at].possessive)

    def _ends_before(self, at: int) -> bool:
        """Whether what stands here can follow a time, and is not what a number counts."""
        if at >= len(self._tokens):
            return True
        token = self._tokens[at]
        is_name = self._is_capital(at) and not (self._is_weekday(at) or self._month_number(at))
        contracted = token.text.partition("'")[0]  # "they'll"
        follows = token.text in words.FOLLOWING or contracted in words.FOLLOWING
        return token.kind == "other" or follows or is_name

    def _tense_of(self, said: Sequence[str]) -> Tense | None:
        if not words.FUTURE.isdisjoint(said) or self._has_progressive(said):
            return Tense.FUTURE
        if self._usual is Tense.FUTURE and not words.ARRANGING.isdisjoint(said):
            return Tense.FUTURE
        if self._is_past(said):
            return Tense.PAST
        return Tense.FUTURE if "on" in said and self._is_present else None

    @property
    def _is_present(self) -> bool:
        """Whether an auxiliary is in the present: "Is he free?", "What's on?"."""
        return any(
            token.text in words.PRESENT or (token.possessive and token.text in words.ASKING_WITH_BE)
            for token in self._tokens
        )

    @staticmethod
    def _is_past(said: Sequence[str]) -> bool:
        """Whether a word is a verb of the past, and none speaks of the future."""
        return words.FUTURE.isdisjoint(said) and any(
            word in words.PAST or (len(word) > 4 and word.endswith("ed") and word != "hundred")
            for word in said
        )

    def _clause(self, at: int) -> list[str]:
        """What stands between the commas around a place."""
        said = self._words[: len(self._tokens)]
        begins = max((place + 1 for place in range(at) if said[place] == ","), default=0)
        ends = next((place for place in range(at, len(said)) if said[place] == ","), len(said))
        return said[begins:ends]

    @staticmethod
    def _has_progressive(said: Sequence[str]) -> bool:
        """Whether a form of "to be" has a verb in "ing" within three words, or "do I have" is."""
        for place, word in enumerate(said):
            near = said[place + 1 : place + 4]
            if word in ("am", "are", "is", "i'm", "we're") and any(
                each.endswith("ing") and len(each) > 4 and each not in ("morning", "evening")
                for each in near
            ):
                return True
            if word in ("do", "does") and "have" in near:
                return True
        return False

    @property
    def _is_future(self) -> bool:
        return (self._tense or self._usual) is Tense.FUTURE

    # ---- expressions

    def _expression(self, at: int) -> tuple[Span, int] | None:
        if self._is(at, "between", "from"):
            return self._range(at)
        if self._is(at, "since"):
            return self._open(at, at + 1)
        for lead in (("before",), ("prior", "to"), ("until",), ("till",), ("by",), ("up", "to"),
                     ("as", "of"), ("after",)):  # fmt: skip
            if all(self._is(at + place, word) for place, word in enumerate(lead)):
                if lead == ("up", "to") and self._word(at - 1) in words.BUSY:
                    continue  # "What was I up to yesterday?"
                return self._open(at, at + len(lead))
        if self._is_roughly(at):
            read = self._time(at + 1, ranged=True)
            return read and (read[0].widened(_around(read[0])), read[1])
        if self._is(at, "earlier", "later"):
            return self._cut(at)
        read = self._time(at)
        return read and self._continued(*read)

    def _is_roughly(self, at: int) -> bool:
        if self._is(at, "about"):
            is_subject = self._word(at - 1) in words.TALKING
            return not is_subject and self._count(at + 1) is not None
        return self._is(at, "around", "near")

    def _open(self, at: int, behind: int) -> tuple[Span, int] | None:
        read = self._reference(behind)
        if read is None:
            return None
        span, behind = read
        is_close = self._is(at - 1, "just", "right", "shortly", "soon")
        match self._word(at):
            case "before" if is_close:
                return Span(span.begins - _WEEK, span.begins), behind
            case "after" if is_close:
                return Span(span.ends, span.ends + _WEEK), behind
            case "since":
                return Span(span.begins, self._today.ends), behind
            case "after":
                is_over = span.ends < self._today.ends
                return Span(span.ends, self._today.ends if is_over else LAST), behind
            case "before" | "prior":
                return Span(FIRST, span.begins), behind
            case "by" | "until" | "till" if self._is_deadline(span):
                return span, behind
            case _:
                return Span(FIRST, span.ends), behind

    def _is_deadline(self, span: Span) -> bool:
        """Whether it is this day that a turn speaks of, and not all the time before it."""
        return (
            self._usual is Tense.FUTURE and span.ends > self._now and span.length <= _LONGEST_MONTH
        )

    def _cut(self, at: int) -> tuple[Span, int] | None:
        """A time until now, or from now on: "earlier this week"."""
        read = self._time(self._behind(at + 1, "in", "on"))
        if read is None:
            return None
        span, behind = read
        if not span.begins <= self._now < span.ends:
            return read
        if self._is(at, "earlier"):
            return Span(span.begins, self._now), behind
        return Span(self._now, span.ends), behind

    def _reference(self, at: int) -> tuple[Span, int] | None:
        """Reads a time that another is counted from: of the days of Christmas the first."""
        for named, day in words.DAYS_OF_HOLIDAYS.items():
            behind = at + len(named)
            if tuple(self._words[at:behind]) == named:
                return self._occurrence(day, behind)
        return self._time(at, ranged=True)

    def _range(self, at: int) -> tuple[Span, int] | None:
        joints = (
            ("and",) if self._is(at, "between") else ("to", "until", "till", "through", "-", "–")
        )
        first = self._day_before_month(at + 1, joints) or self._time(at + 1, ranged=True)
        if first is None or not self._is(first[1], *joints):
            return None if self._is(at, "between") else first and self._from(first)
        last = self._time(first[1] + 1, ranged=True)
        if last is None:
            return None
        if first[0].begins > last[0].begins:
            # "From March to June" is one stretch: its first part is the one before its last.
            # What is soon ahead is ahead as a whole: "from Monday to Wednesday".
            begins, ends = first[0].begins, last[0].begins
            if self._is_future and begins - self._now < _LONGEST_MONTH:
                last = (
                    self._time(first[1] + 1, ranged=True, which=lambda it: it.beginning(begins))
                    or last
                )
            else:
                first = self._time(at + 1, ranged=True, which=lambda it: it.begun(ends)) or first
        if first[0].begins > last[0].begins:
            return None
        return Span(first[0].begins, last[0].ends), last[1]

    def _day_before_month(self, at: int, joints: Sequence[str]) -> tuple[Span, int] | None:
        """Reads "The 3" of "between 3 and 7 May"."""
        first = self._day_number(self._behind(at, "the"))
        if first is None or not self._is(first[1], *joints):
            return None
        last = self._time(first[1] + 1, ranged=True)
        if last is None or last[0].length > _DAY or last[0].begins.day <= first[0]:
            return None
        begins = last[0].begins.replace(day=first[0])
        return Span(begins, begins + _DAY), first[1]

    def _from(self, read: tuple[Span, int]) -> tuple[Span, int]:
        """Reads "From" a time without "to": the time, or all since then with "on"."""
        span, behind = read
        if self._is(behind, "on", "onwards", "onward"):
            return Span(span.begins, LAST if self._is_future else self._today.ends), behind + 1
        return read

    def _continued(self, span: Span, behind: int) -> tuple[Span, int]:
        """Days of a range without a word before it: "May 3-7", "Monday to Wednesday"."""
        if not self._is(behind, "-", "–", "to", "through", "till", "until"):
            return span, behind
        if span.length == _DAY and self._tokens[behind + 1 : behind + 2]:
            token = self._tokens[behind + 1]
            if token.kind == "number" and token.text.isdigit() and not self._is(behind, "until"):
                last = span.begins.replace(day=1) + (int(token.text) - 1) * _DAY
                if span.begins < last and last.month == span.begins.month:
                    return Span(span.begins, last + _DAY), behind + 2
        last_read = self._time(behind + 1, ranged=True)
        if last_read is None or last_read[0].begins <= span.begins:
            return span, behind
        return Span(span.begins, last_read[0].ends), last_read[1]

    # ---- times

    def _time(
        self, at: int, *, ranged: bool = False, which: _Choice | None = None
    ) -> tuple[Span, int] | None:
        if self._depth >= MAX_DEPTH:
            return None
        self._depth += 1
        try:
            return self._any_time(at, ranged=ranged, which=which)
        finally:
            self._depth -= 1

    def _any_time(self, at: int, *, ranged: bool, which: _Choice | None) -> tuple[Span, int] | None:
        read = (
            self._distance(at)
            or self._part(at)
            or self._part_of_day(at)
            or self._unit_of(at)
            or self._absolute(at)
            or self._relative(at)
            or self._counted(at)
            or self._recurring_time(at, ranged=ranged, which=which)
            or self._year(at, ranged=ranged)
        )
        return read and self._narrowed(*read)

    def _narrowed(self, span: Span, behind: int) -> tuple[Span, int]:
        """Reads a part of a day, or a day of what is longer, behind it: "last week on Friday"."""
        if span.length <= _DAY and span.length >= timedelta(hours=23):
            place = behind
            if self._is(place, "in", "at", "during"):
                place = self._behind(place + 1, "the")
            place = self._behind(place, "early", "late")
            if hours := words.PARTS_OF_DAY.get(self._word(place)):
                return calendar.hours_of(span, *hours), place + 1
            return span, behind
        if span.length > _DAY and (
            self._is(behind, "on", "in", "at") or self._tokens[behind - 1].possessive
        ):
            skipped = behind + self._is(behind, "on", "in", "at")
            recurring = self._recurring(self._behind(skipped, "the"), led=True)
            if recurring is not None and (inside := recurring[0].within(span)):
                return self._narrowed(inside[-1], recurring[1])
        return span, behind

    def _distance(self, at: int) -> tuple[Span, int] | None:
        """Reads "Two weeks after" a time, "the week before" it, "the Friday after" it."""
        every = self._is(at, "the", "within")
        start = self._behind(at + every, "first")
        counted = self._count_and_unit(start) or (every and self._unit(start, one=True)) or None
        if every and (vague := words.VAGUE_DISTANCES.get(self._word(start))):
            counted = _Counted(vague[0], vague[0]), vague[1], start + 1
        if counted is not None:
            count, unit, behind = counted
            if self._is(behind, "ago"):
                reference = self._named_day(behind + 1)
                if reference is None:
                    return None
                return reference[0].moved(-_length(unit, count.low, reference[0])), reference[1]
            return self._away(count.high, unit, behind, every=every)
        recurring = self._recurring(start, led=True)
        if recurring is not None and self._is(recurring[1], "after", "before", "following"):
            thing, behind = recurring
            reference = self._reference(behind + 1)
            if reference is None:
                return None
            found = (
                thing.ended(reference[0].begins)
                if self._is(behind, "before")
                else thing.beginning(reference[0].ends)
            )
            return found and (found, reference[1])
        return None

    def _away(self, count: int, unit: Unit, behind: int, *, every: bool) -> tuple[Span, int] | None:
        if not self._is(behind, "after", "before", "following", "from"):
            return None
        is_before = self._is(behind, "before")
        if self._is(behind + 1, "now"):
            reference: tuple[Span, int] | None = self._today, behind + 2
        else:
            reference = self._reference(behind + 1)
        if reference is None:
            return None
        span, end = reference
        step = count * unit.value
        if self._is(behind, "from") and span is not self._today and span.length <= _DAY:
            return Span(span.begins + step, span.ends + step), end
        if every:
            away = (
                Span(span.begins - step, span.begins)
                if is_before
                else Span(span.ends, span.ends + step)
            )
            return away, end
        return unit.around(span.begins - step if is_before else span.ends - _DAY + step), end

    def _named_day(self, at: int) -> tuple[Span, int] | None:
        """The day in "a week ago yesterday", "a week ago on Friday"."""
        return self._relative(at) or self._recurring_time(self._behind(at, "on"))

    def _part(self, at: int) -> tuple[Span, int] | None:
        """Reads "the end of" a time, "early" in it, its "first week", "second Tuesday"."""
        start = self._behind(at, "the", "very")
        third = words.THIRDS.get(self._word(start))
        if third is not None:
            place = self._behind(start + 1, "-", "in", "of")
            is_adjective = self._is(start, "early", "mid", "late")
            if place == start + 1 and not is_adjective:
                return None
            read = self._time(place, ranged=True) or self._current(place)
            # "Late last night", "early yesterday": of a day there are no parts of whole days.
            is_day = read is not None and read[0].length <= _DAY
            return read if read is None or is_day else (read[0].part(third, 3), read[1])
        number = words.NUMBER_OF_PART(self._word(start))
        if number is None:
            return None
        counted = self._count_and_unit(start + 1)
        unit = counted or self._unit(start + 1, one=True)
        thing = self._recurring(start + 1, led=True)
        is_half = self._is(start + 1, "half", "quarter")
        if is_half:
            behind = start + 2
        elif unit:
            behind = unit[2]
        elif thing:
            behind = thing[1]
        else:
            return None
        if not self._is(behind, "of", "in"):
            return None
        whole = self._time(behind + 1) or self._current(behind + 1)
        if whole is None:
            return None
        span, end = whole
        if is_half:
            parts = 2 if self._is(start + 1, "half") else 4
            return span.part(number % parts, parts), end
        if unit:
            step = unit[0].high * unit[1].value
            if span.begins + step > span.ends:
                return None  # "last year in May"
            if number < 0:
                return Span(span.ends - step, span.ends), end
            return Span(span.begins + number * step, span.begins + (number + 1) * step), end
        inside = thing[0].within(span) if thing else []
        return (inside[number], end) if -len(inside) <= number < len(inside) else None

    def _part_of_day(self, at: int) -> tuple[Span, int] | None:
        """Reads "The morning of" a day, "the evening" on it."""
        start = self._behind(at, "the")
        hours = words.PARTS_OF_DAY.get(self._word(start))
        if hours is None or start == at:
            return None
        read = self._time(self._behind(start + 1, "of", "on"))
        if read is None or read[0].length > _DAY:
            return None
        return calendar.hours_of(read[0], *hours), read[1]

    def _current(self, at: int) -> tuple[Span, int] | None:
        """Reads "The week", "the month", "the year" in "the end of the week"."""
        start = self._behind(at, "the")
        unit = self._unit(start, one=True) if start > at else None
        return unit and (_units_at(self._now, unit[0].low, unit[1]), unit[2])

    def _unit_of(self, at: int) -> tuple[Span, int] | None:
        """Reads "The week of" a day, "the month of" June, "the weekend of" the 12th."""
        start = self._behind(at, "the")
        if not self._is(start + 1, "of"):
            return None
        unit = self._unit(start, one=True)
        if unit is None and not self._is(start, "weekend"):
            return None
        read = self._time(start + 2)
        if read is None:
            return None
        if unit is None:
            near = words.WEEKEND.nearest(read[0].begins)
            return near and (near, read[1])
        around = _units_at(read[0].begins, unit[0].low, unit[1])
        return (around if around.length > read[0].length else read[0]), read[1]

    def _absolute(self, at: int) -> tuple[Span, int] | None:
        if at >= len(self._tokens):
            return None
        token = self._tokens[at]
        if token.kind == "iso":
            number, month, day = map(int, token.text.split("-"))
        elif token.kind == "dotted":
            day, month, number = map(int, token.text.split("."))
        elif token.kind == "slashed":
            month, day, number = map(int, token.text.split("/"))
            if month > 12:
                month, day = day, month
        else:
            return None
        return Unit.DAY.around(datetime(number, month, day)), at + 1

    def _relative(self, at: int) -> tuple[Span, int] | None:
        today = self._today
        start = self._behind(at, "the")
        match self._word(start), self._word(start + 1), self._word(start + 2):
            case ("day", "before", "yesterday"):
                return today.moved(-2 * _DAY), start + 3
            case ("day", "after", "tomorrow"):
                return today.moved(2 * _DAY), start + 3
            case ("other", "day" | "night" | "morning" | "afternoon" | "evening", _) if start > at:
                return Span(today.begins - 7 * _DAY, today.begins), start + 2
            case ("night", "before", "last"):
                return calendar.hours_of(
                    today.moved(-2 * _DAY), *words.PARTS_OF_DAY["night"]
                ), start + 3
            case ("last", "night", _):
                return calendar.hours_of(
                    today.moved(-_DAY), *words.PARTS_OF_DAY["night"]
                ), start + 2
            case ("yesterday", _, _):
                return today.moved(-_DAY), start + 1
            case ("today", _, _):
                return today, start + 1
            case ("tomorrow", _, _):
                return today.moved(_DAY), start + 1
            case ("tonight", _, _):
                return calendar.hours_of(today, *words.PARTS_OF_DAY["night"]), start + 1
            case ("this", "time", "last" | "next") if unit := self._unit(start + 3, one=True):
                way = -1 if self._is(start + 2, "last") else 1
                part_of = {Unit.YEAR: Unit.MONTH, Unit.MONTH: Unit.WEEK}.get(unit[1], Unit.DAY)
                return part_of.around(self._now + way * unit[1].value), unit[2]
            case ("this", "time", "yesterday" | "tomorrow"):
                return self._relative(start + 2)
            case ("this", part, _) if part in words.PARTS_OF_DAY:
                return calendar.hours_of(today, *words.PARTS_OF_DAY[part]), start + 2
        return (
            self._before_last(start)
            or self._after_next(start)
            or self._last_or_next(start, definite=start > at)
        )

    def _before_last(self, at: int) -> tuple[Span, int] | None:
        unit = self._unit(at, one=True)
        if unit and self._is(unit[2], "before") and self._is(unit[2] + 1, "last"):
            count, step = unit[0].low, unit[1]
            return _units_at(self._now - 2 * count * step.value, count, step), unit[2] + 2
        thing = self._recurring(at, led=True)
        if thing and self._is(thing[1], "before") and self._is(thing[1] + 1, "last"):
            found = thing[0].ended(self._today.begins, back=1)
            return found and (found, thing[1] + 2)
        return None

    def _after_next(self, at: int) -> tuple[Span, int] | None:
        unit = self._unit(at, one=True)
        if unit and self._is(unit[2], "after") and self._is(unit[2] + 1, "next"):
            count, step = unit[0].low, unit[1]
            return _units_at(self._now + 2 * count * step.value, count, step), unit[2] + 2
        thing = self._recurring(at, led=True)
        if thing and self._is(thing[1], "after") and self._is(thing[1] + 1, "next"):
            following = thing[0].beginning(self._today.ends)
            found = following and thing[0].beginning(following.ends)
            return found and (found, thing[1] + 2)
        return None

    def _last_or_next(self, at: int, *, definite: bool) -> tuple[Span, int] | None:
        which = self._word(at)
        start = at + 1
        if self._word(at - 1) in words.OWNING:
            return None  # "my last week at the shop"
        if which == "this" and self._is(start, "past", "last", "coming", "next"):
            which, start, definite = self._word(start), start + 1, True
        which = {"previous": "last", "current": "this", "coming": "next", "upcoming": "next"}.get(
            which, which
        )
        if which not in ("last", "past", "this", "next"):
            return None
        is_past = which in ("last", "past")
        counted = self._count_and_unit(start)
        if counted and which != "this" and counted[2] > start + 1:
            count, unit, behind = counted
            return self._rolling(count.high, unit, forward=not is_past), behind
        if (several := self._count(start)) and is_past:
            things = self._recurring(several[1], led=True, plural=True)
            if things and (back := things[0].ended(self._today.begins, back=several[0].high - 1)):
                latest = things[0].ended(self._today.begins)
                assert latest is not None, "an earlier one has ended; this is a bug"
                return Span(back.begins, latest.ends), things[1]
        return self._one_unit(which, start, definite=definite) or self._one_thing(which, start)

    def _one_unit(self, which: str, at: int, *, definite: bool) -> tuple[Span, int] | None:
        unit = self._unit(at, one=True)
        if unit is None:
            return None
        count, step, behind = unit
        is_lately = definite and self._is(at - 3, "in", "over", "within", "during")
        if step in (Unit.MINUTE, Unit.HOUR, Unit.DAY) and not (is_lately and which != "this"):
            # "At the last minute", "the next day", "this day" name no time.
            return None
        if self._is(behind, "of"):
            return None  # "the last week of school"
        if which == "past" or (which == "last" and definite and not self._is(at - 1, "previous")):
            return self._rolling(count.high, step, forward=False), behind
        steps = {"last": -1, "this": 0, "next": 1}[which]
        return _units_at(self._now + steps * count.low * step.value, count.low, step), behind

    def _one_thing(self, which: str, at: int) -> tuple[Span, int] | None:
        read = self._recurring(at, led=True)
        if read is None:
            return None
        thing, behind = read
        found = self._chosen(thing, which)
        return found and (found, behind)

    def _chosen(self, thing: Recurring, which: str) -> Span | None:
        if which in ("last", "past"):
            return thing.ended(self._today.begins)
        if which == "next":
            return thing.beginning(self._today.ends)
        if self._tense is Tense.PAST:
            return thing.begun(self._now)
        nearest = thing.nearest(self._now)
        if nearest and (self._is_future or nearest.begins - self._now < 60 * _DAY):
            week = thing.within(Unit.WEEK.around(self._now))
            return week[0] if week and nearest.length <= 2 * _DAY else nearest
        return thing.begun(self._now)

    def _rolling(self, count: int, unit: Unit, *, forward: bool) -> Span:
        """Some units until now, or from now on; of days or more, in whole days."""
        step = count * unit.value
        if unit in (Unit.MINUTE, Unit.HOUR):
            return (
                Span(self._now, self._now + step) if forward else Span(self._now - step, self._now)
            )
        if forward:
            return Span(self._today.begins, self._today.ends + step)
        return Span(self._today.begins - step, self._today.ends)

    def _counted(self, at: int) -> tuple[Span, int] | None:
        """Reads "Three days ago", "two weekends ago"; "in three days", of the future."""
        counted = self._count_and_unit(at)
        if counted is not None:
            (low, high), unit, behind = counted
            if self._words[behind : behind + 3] == ["and", "a", "half"]:
                behind += 3
                if unit is Unit.YEAR:
                    low, high, unit = 12 * low + 6, 12 * high + 6, Unit.MONTH
            if self._is(behind, "ago", "back") or (
                self._is(behind, "earlier") and behind == len(self._tokens) - 1
            ):
                begins = unit.around(self._now - high * unit.value).begins
                span = Span(begins, unit.around(self._now - low * unit.value).ends)
                return span.widened(_LEEWAY.get(unit, timedelta())), behind + 1
            # "In three weeks' time"
            is_time = self._is(self._behind(behind, "'"), "time")
            is_ahead = self._is(at - 1, "in") and (
                is_time or self._tense is Tense.FUTURE or self._usual is Tense.FUTURE
            )
            if is_ahead and self._tense is not Tense.PAST:
                begins = unit.around(self._now + low * unit.value).begins
                return Span(begins, unit.around(self._now + high * unit.value).ends), behind
            return None
        if several := self._count(at):
            things = self._recurring(several[1], led=True, plural=True)
            if things and self._is(things[1], "ago"):
                found = things[0].ended(self._today.begins, back=several[0].high - 1)
                return found and (found, things[1] + 1)
            part = words.PARTS_OF_DAY.get(self._word(several[1]).removesuffix("s"))
            if part and self._is(several[1] + 1, "ago"):
                day = self._today.moved(-several[0].high * _DAY)
                return calendar.hours_of(day, *part), several[1] + 2
        return None

    # ---- what comes again

    def _recurring_time(
        self, at: int, *, ranged: bool = False, which: _Choice | None = None
    ) -> tuple[Span, int] | None:
        start = self._behind(at, "the")
        read = self._recurring(start, led=ranged or self._is_led(at))
        if read is None:
            return None
        return self._occurrence(*read, which=which)

    def _occurrence(
        self, thing: Recurring, behind: int, *, which: _Choice | None = None
    ) -> tuple[Span, int] | None:
        """Reads which one of what comes again is meant; without a word, by the tense."""
        longer = self._longer(behind)
        if longer is not None and (inside := thing.within(longer[0])):
            return inside[-1], longer[1]
        if which is not None:
            found = which(thing)
        elif self._is_future:
            found = next((each for each in thing.near(self._now) if each.ends > self._now), None)
            if found and self._is_weekday(behind - 1) and found.begins <= self._now:
                found = thing.beginning(self._today.ends)
        elif self._is_weekday(behind - 1):
            found = thing.ended(self._today.begins)
        else:
            found = thing.begun(self._now)
        return found and (found, behind)

    def _is_weekday(self, at: int) -> bool:
        return self._word(at) in words.WEEKDAYS or self._word(at) in words.SHORT_WEEKDAYS

    def _longer(self, at: int) -> tuple[Span, int] | None:
        """A year, or another longer time, that says which: "May 2022", "Friday of last week"."""
        start = at
        if self._is(at, ",", "of", "in", "from"):
            start = at + 1
        start = self._behind(start, "the")
        if year := self._year_number(start):
            return calendar.year(year), start + 1
        return self._relative(start) or self._counted(start)

    def _recurring(
        self, at: int, *, led: bool, plural: bool = False
    ) -> tuple[Recurring, int] | None:
        if plural:
            return self._plural(at)
        return (
            self._holiday(at)
            or self._weekday(at)
            or self._day_of_month(at, led=led)
            or self._month_or_season(at, led=led)
        )

    def _plural(self, at: int) -> tuple[Recurring, int] | None:
        word = self._word(at)
        for stem in (word.removesuffix("s"), word.removesuffix("es")):
            if stem == word:
                continue
            if stem == "weekend":
                return words.WEEKEND, at + 1
            if stem in words.WEEKDAYS:
                return calendar.weekly(words.WEEKDAYS[stem]), at + 1
            if stem in self._seasons:
                return self._seasons[stem], at + 1
            if (stem,) in words.HOLIDAYS:
                return words.HOLIDAYS[stem,], at + 1
        return None

    def _holiday(self, at: int) -> tuple[Recurring, int] | None:
        for named in words.HOLIDAYS_BY_FIRST_WORD.get(self._words[at], ()):
            behind = at + len(named)
            if tuple(self._words[at:behind]) == named:
                holiday = words.HOLIDAYS[named]
                if self._is(behind, "weekend"):
                    return calendar.with_weekend(holiday), behind + 1
                return holiday, behind + (self._word(behind) in words.FREE)
        return None

    def _weekday(self, at: int) -> tuple[Recurring, int] | None:
        if self._is(self._before_other(at), "each", "every"):
            return None
        if self._is(at, "weekend"):
            return words.WEEKEND, at + 1
        word = self._word(at)
        is_short = word in words.SHORT_WEEKDAYS
        number = words.WEEKDAYS.get(word, words.SHORT_WEEKDAYS.get(word))
        if number is None:
            return None
        behind = at + 1
        dated = self._day_of_month(self._behind(behind, ",", "the"), led=True)
        if dated is not None and not self._is(behind, "to", "-"):
            return calendar.on(number, dated[0]), dated[1]
        if self._is_repeated(behind):
            return None
        following = self._word(behind)
        if following == "week" or (following[-1:] == "s" and following[:-1] in words.PARTS_OF_DAY):
            return None  # "on Monday week", "on Friday evenings"
        is_led = (
            self._is_led(at)
            or self._is(at - 1, "on", "last", "next", "this", "past", "coming", "and", "or")
            or (self._is(at - 1, "the") and self._is(at - 2, "on"))
        )
        if is_short and not (self._is_capital(at) and is_led):
            return None
        is_owned = self._word(at - 1) in words.OWNING or (at and self._tokens[at - 1].possessive)
        if not is_led and (is_owned or not self._ends_before(behind)):
            # "Albright's Wednesday visit", "whose Saturday": of any week.
            return None
        return calendar.weekly(number), behind

    def _before_other(self, at: int) -> int:
        """The place before the words "other" or "second", which may stand before this one."""
        return at - 1 - self._is(at - 1, "other", "second")

    def _is_repeated(self, at: int) -> bool:
        """Whether "of each" or "of every" stands here."""
        return self._is(at, "of") and self._is(at + 1, "each", "every")

    def _day_of_month(self, at: int, *, led: bool) -> tuple[Recurring, int] | None:
        """Reads "5 May", "the fifth of May", "May 5th"; "the 19th" after a preposition."""
        if at < len(self._tokens) and self._tokens[at].kind == "short":
            date = self._short_date(at)
            return date and (date, at + 1)
        day = self._day_number(at)
        if day is not None:
            number, behind, is_ordinal = day
            place = self._behind(behind, "of")
            if month := self._month_number(place):
                is_sure = is_ordinal or self._word(place) not in words.AMBIGUOUS_MONTHS
                if (
                    is_sure
                    or self._is_capital(place)
                    or self._year_number(self._behind(place + 1, ","))
                ):
                    return calendar.day_of_year(month, number), place + 1
                return None
            is_definite = self._is(at - 1, "the") or self._is_weekday(at - 1)
            listed = self._is(at - 2, "and", "or") and self._day_number(at - 3)
            led = led or self._word(at - 2) in words.LEADING_TO_DAYS or bool(listed and listed[2])
            # "Her last day is the 3rd", "make it the 17th"; "the first" may be of anything.
            in_digits = self._tokens[at].kind == "number"
            led = led or (in_digits and self._is_being(at - 2))
            led = led or number > (MAX_RANK_IN_DIGITS if in_digits else MAX_RANK_IN_WORDS)
            if self._is_repeated(behind):
                return None
            if is_ordinal and is_definite and led and self._ends_before(behind):
                return calendar.monthly(number), behind
            return None
        month = self._month_number(at)
        if month is None:
            return None
        is_apart = self._is(at + 1, ",") and self._is(at + 2, "the")  # "July, the twelfth"
        day = self._day_number(at + 3 if is_apart else self._behind(at + 1, "the"))
        if day is None:
            return None
        number, behind, is_ordinal = day
        if self._word(at) in words.AMBIGUOUS_MONTHS and not is_ordinal:
            with_year = self._year_number(self._behind(behind, ","))
            is_alone = (
                at == 0 and behind < len(self._tokens) and self._tokens[behind].kind == "other"
            )
            is_date = with_year or self._is_led(at) or self._is_capital(at) or is_alone
            if not (is_date and (with_year or self._ends_before(behind))):
                return None
        return calendar.day_of_year(month, number), behind

    def _short_date(self, at: int) -> Recurring | None:
        """Reads "24/11", "11/24" or "24.11." after a preposition; others are fractions."""
        goes_on = self._is(at - 1, "and", "to") and at > 1 and self._tokens[at - 2].kind == "short"
        if not goes_on and self._word(at - 1) not in words.LEADING_TO_SHORT_DATES:
            return None
        first, second = map(int, re.findall(r"\d+", self._word(at)))
        is_month_first = "/" in self._word(at) and first <= 12
        month, day = (first, second) if is_month_first else (second, first)
        return calendar.day_of_year(month, day) if 1 <= month <= 12 and 1 <= day <= 31 else None

    def _month_or_season(self, at: int, *, led: bool) -> tuple[Recurring, int] | None:
        word = self._word(at)
        month = self._month_number(at)
        season = self._seasons.get(word)
        if month is None and season is None:
            return None
        behind = at + 1
        if season is not None and self._word(behind) in words.FREE:
            behind += 1
        is_dated = self._longer(behind) is not None
        if not (led or is_dated or self._is_listed(at)):
            return None
        if month is not None:
            if self._is(at - 1, "the", "a") or (self._tokens[at].possessive and not is_dated):
                return None
            return calendar.month_of_year(month), behind
        assert season is not None, "it is a month or a season; this is a bug"
        is_definite = self._is(at - 1, "the")
        # "Before the fall" is seldom about a season, "in the fall" mostly is.
        is_sure = is_dated or self._is(behind, "after", "before")
        if is_definite and not is_sure and not self._is(at - 2, "in", "during", "over", "of"):
            return None
        is_accident = word == "fall" and not is_dated and not words.HURTING.isdisjoint(self._words)
        if self._is(at - 1, "a", "an") or is_accident:
            return None
        return (season, behind) if is_dated or self._ends_before(behind) else None

    def _is_listed(self, at: int) -> bool:
        """Whether it follows another month: "in May and June"."""
        return self._is(at - 1, "and", "or", ",") and self._month_number(at - 2) is not None

    # ---- numbers

    def _month_number(self, at: int) -> int | None:
        word = self._word(at)
        return words.MONTHS.get(word) or words.SHORT_MONTHS.get(word)

    def _year(self, at: int, *, ranged: bool) -> tuple[Span, int] | None:
        word = self._word(at)
        if word[:1] == "q" and word[1:].isdigit():
            longer = self._longer(at + 1)
            whole = longer[0] if longer else Unit.YEAR.around(self._now)
            return whole.part(int(word[1:]) - 1, 4), longer[1] if longer else at + 1
        if (number := self._year_number(at)) and (ranged or self._is_led(at)):
            return (calendar.year(number), at + 1) if self._ends_before(at + 1) else None
        if not self._is(at, "the"):
            return None
        decade = words.DECADES.get(self._word(at + 1))
        written = self._word(at + 1).removesuffix("s")
        if decade is None and written != self._word(at + 1) and written.isdigit():
            decade = int(written)
        if decade is None or decade % 10:
            return None
        first = decade if decade > 100 else 1900 + decade if decade > 20 else 2000 + decade
        return Unit.DECADE.around(datetime(first, 1, 1)), at + 2

    def _year_number(self, at: int) -> int | None:
        word = self._word(at)
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

    def _count(self, at: int) -> tuple[_Counted, int] | None:
        start = self._behind(at, "a", "an")
        word = self._word(start)
        if word in words.VAGUE_COUNTS:
            return _Counted(*words.VAGUE_COUNTS[word]), self._behind(start + 1, "of", "more")
        if word == "half" and self._is(start + 1, "a", "an"):
            return None
        if start > at:
            return _Counted(1, 1), start
        if word.isdigit():
            return (_Counted(int(word), int(word)), at + 1) if len(word) <= 3 else None
        if word in words.TENS:
            place = self._behind(at + 1, "-")
            ones = words.ONES.get(self._word(place), 0)
            if 0 < ones < 10:
                return _Counted(words.TENS[word] + ones, words.TENS[word] + ones), place + 1
            return _Counted(words.TENS[word], words.TENS[word]), at + 1
        number = words.ONES.get(word, 0)
        return (_Counted(number, number), at + 1) if number else None

    def _count_and_unit(self, at: int) -> tuple[_Counted, Unit, int] | None:
        if self._is(at, "half") and self._is(at + 1, "a", "an") and self._is(at + 2, "year"):
            return _Counted(6, 6), Unit.MONTH, at + 3
        if self._is(at, "half") and self._is(at + 1, "an") and self._is(at + 2, "hour"):
            return _Counted(30, 30), Unit.MINUTE, at + 3
        counted = self._count(at)
        if counted is None:
            return None
        count, behind = counted
        unit = self._unit(behind, one=False)
        if unit is None:
            return None
        times, step, end = unit
        return _Counted(count.low * times.low, count.high * times.high), step, end

    def _unit(self, at: int, *, one: bool) -> tuple[_Counted, Unit, int] | None:
        """A unit, alone or in the plural unless it must be one; a fortnight is two weeks."""
        word = self._word(at)
        if not one and word == "centuries":
            word = "century"
        found = words.UNITS.get(word if one else word.removesuffix("s"))
        return found and (_Counted(found[0], found[0]), found[1], at + 1)


_LEEWAY = {Unit.MINUTE: timedelta(minutes=10), Unit.HOUR: timedelta(hours=1)}
"""How exactly "ten minutes ago" is meant."""


def _around(span: Span) -> timedelta:
    """How much earlier and later "around" a time is."""
    return max(_AROUND_A_DAY, span.length / 4) if span.length >= _DAY else timedelta(hours=6)


def _length(unit: Unit, count: int, span: Span) -> timedelta:
    return span.begins - (span.begins - count * unit.value)


def _units_at(instant: datetime, count: int, unit: Unit) -> Span:
    """The unit that has an instant; of three months the quarter, of two weeks both up to it."""
    around = unit.around(instant)
    if count == 3 and unit is Unit.MONTH:
        begins = around.begins - relativedelta(months=(around.begins.month - 1) % 3)
        return Span(begins, begins + relativedelta(months=3))
    return Span(around.begins - (count - 1) * unit.value, around.ends)
