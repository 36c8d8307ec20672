"""A grammar of times in English: "in the last three days", "the Friday after Easter".

By recursive descent: each rule is a method of `Sentence` that reads from a place, and returns what
it read and the place behind that, or None.

    expression = "between" time "and" time | "from" time "to" time
               | ("since" | "before" | "until" | "by" | "after" | "around") time | time
    time       = ( distance | part | unit of | absolute | relative | counted | recurring | year )
                 [ part of a day | day within it ]
    distance   = (count unit | recurring | part of a day) ("after" | "before" | "from") time
               | count weeks "on" weekday
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
from datetime import UTC, datetime, timedelta, tzinfo

from dateutil.relativedelta import relativedelta

from serving.domain.english import time_words as words
from serving.domain.english.tense import Tense, is_past, tense_of
from serving.domain.english.time_tokens import Counted, Token, Tokens, full_year
from serving.domain.questions import calendar
from serving.domain.questions.calendar import FIRST, LAST, Recurring, Span, Unit

_DAY = timedelta(days=1)
_WEEK = timedelta(weeks=1)
_LONGEST_MONTH = timedelta(days=31)
_AROUND_A_DAY = timedelta(days=3)

MAX_DEPTH = 4
"""The times within a time: "the Friday after the first week of last May" has three."""

MAX_RANK_IN_DIGITS = 3
MAX_RANK_IN_WORDS = 10
"""An ordinal up to this may be that of anything: "the 2nd, please", "she was the fourth"."""

_JOINTS = ("to", "until", "till", "through", "-", "–")
"""Words between the first and the last time of a range."""

Reading = tuple[Span, int]
"""A time, and the place behind the words that name it."""

_Choice = Callable[[Recurring], Span | None]
"""Chooses one of what comes again."""


class Sentence(Tokens):
    """Reads the times of one sentence."""

    def __init__(
        self, tokens: Sequence[Token], now: datetime, usual: Tense, zone: tzinfo, *, southern: bool
    ) -> None:
        super().__init__(tokens)
        self._now = now
        self._zone = zone
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
        behind = 0
        for at in range(len(self._tokens)):
            if at >= behind and self._can_begin(at) and (read := self._read(at)):
                span, behind = read
                yield span, at, behind

    def _read(self, at: int) -> Reading | None:
        """The time that begins here; none is outside of Python's calendar."""
        self._depth = 0
        try:
            read = self._expression(at)
            return read and self._in_its_clause(at, read)
        except (OverflowError, ValueError):
            return None

    def _in_its_clause(self, at: int, read: Reading) -> Reading:
        """The time of a turn by the tense of its clause, if that has more than the time."""
        if self._usual is Tense.PAST:
            return read
        of_sentence = self._tense
        clause = self._clause(at)
        if len(clause) > read[1] - at + 3:
            self._tense = self._tense_of(clause)
        if self._is(at - 1, "in") and read[0].length > _WEEK and is_past(clause):
            # Of what is arranged "moved to May" is ahead, and "we moved in May" is over.
            self._tense = Tense.PAST
        if self._tense is not of_sentence:
            read = self._expression(at) or read
            self._tense = of_sentence
        return read

    # ---- tenses

    def _tense_of(self, said: Sequence[str]) -> Tense | None:
        tense = tense_of(said, self._usual)
        if tense is not None or "on" not in said:
            return tense
        # "Is he free on Friday?", "What's on?"
        is_present = any(
            token.text in words.PRESENT or (token.possessive and token.text in words.ASKING_WITH_BE)
            for token in self._tokens
        )
        return Tense.FUTURE if is_present else None

    def _clause(self, at: int) -> list[str]:
        """The clause between the commas around a place."""
        said = self._words[: len(self._tokens)]
        begins = max((place + 1 for place in range(at) if said[place] == ","), default=0)
        ends = next((place for place in range(at, len(said)) if said[place] == ","), len(said))
        return said[begins:ends]

    @property
    def _is_future(self) -> bool:
        return (self._tense or self._usual) is Tense.FUTURE

    # ---- expressions

    def _expression(self, at: int) -> Reading | None:
        if self._is(at, "between", "from"):
            return self._range(at)
        if self._is(at, "since", "before", "until", "till", "by", "after"):
            return self._open(at, at + 1)
        is_busy = self._word(at - 1) in words.BUSY  # "What was I up to yesterday?"
        is_limit = self._are(at, ("up", "to")) and not is_busy
        if is_limit or self._are(at, ("prior", "to")) or self._are(at, ("as", "of")):
            return self._open(at, at + 2)
        if self._is_roughly(at):
            read = self._time(at + 1, ranged=True)
            return read and (read[0].widened(_around(read[0])), read[1])
        if self._is(at, "earlier", "later"):
            return self._cut(at)
        read = self._day_before_month(at, _JOINTS) or self._time(at)
        if read is None or not self._is(read[1], *_JOINTS):
            return read
        return self._stretch(at, read) or read  # "May 3-7", "Monday to Wednesday"

    def _is_roughly(self, at: int) -> bool:
        if self._is(at, "about"):
            is_subject = self._word(at - 1) in words.TALKING
            return not is_subject and self._count(at + 1) is not None
        return self._is(at, "around", "near")

    def _open(self, at: int, behind: int) -> Reading | None:
        if (read := self._reference(behind)) is None:
            return None
        span, behind = read
        is_close = self._is(at - 1, "just", "right", "shortly", "soon")
        is_turn, is_short = self._usual is Tense.FUTURE, span.length <= _LONGEST_MONTH
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
            case "by" | "until" | "till" if is_turn and self._now < span.ends and is_short:
                return span, behind  # it is this day that a turn speaks of
            case _:
                return Span(FIRST, span.ends), behind

    def _cut(self, at: int) -> Reading | None:
        """A time until now, or from now on: "earlier this week"."""
        if (read := self._time(self._behind(at + 1, "in", "on"))) is None:
            return None
        span, behind = read
        if not span.begins <= self._now < span.ends:
            return read
        if self._is(at, "earlier"):
            return Span(span.begins, self._now), behind
        return Span(self._now, span.ends), behind

    def _reference(self, at: int) -> Reading | None:
        """Reads a time that another is counted from: of the days of Christmas the first."""
        for named, day in words.DAYS_OF_HOLIDAYS.items():
            if self._are(at, named):
                return self._occurrence(day, at + len(named))
        return self._time(at, ranged=True)

    def _range(self, at: int) -> Reading | None:
        joints = ("and",) if self._is(at, "between") else _JOINTS
        first = self._day_before_month(at + 1, joints) or self._time(at + 1, ranged=True)
        if first is None or not self._is(first[1], *joints):
            return None if self._is(at, "between") else first and self._from(*first)
        is_turn = self._usual is Tense.FUTURE
        if is_turn and self._is(at, "from") and not words.MOVED.isdisjoint(self._words[:at]):
            return self._time(first[1] + 1, ranged=True)  # "moved from Monday to Tuesday"
        return self._stretch(at + 1, first)

    def _stretch(self, at: int, first: Reading) -> Reading | None:
        """Reads the time behind another and a joint; the span is from the first to the last."""
        span, behind = first
        number, end, is_ordinal = self._day_number(self._behind(behind + 1, "the")) or (0, 0, False)
        is_day = is_ordinal or not self._is(behind, "until")
        if span.length == _DAY and number and is_day and not self._names_month(end):
            day = span.begins.replace(day=1) + (number - 1) * _DAY
            is_begun = self._is_future or day <= self._now
            if span.begins < day and day.month == span.begins.month and is_begun:
                return Span(span.begins, day + _DAY), end
        if (last := self._time(first[1] + 1, ranged=True)) is None:
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
                first = self._time(at, ranged=True, which=lambda it: it.begun(ends)) or first
        if first[0].begins > last[0].begins:
            return None
        return Span(first[0].begins, last[0].ends), last[1]

    def _day_before_month(self, at: int, joints: Sequence[str]) -> Reading | None:
        """Reads "The 3" of "between 3 and 7 May"."""
        first = self._day_number(self._behind(at, "the"))
        if first is None or not self._is(first[1], *joints):
            return None
        second = self._day_number(self._behind(first[1] + 1, "the"))
        if second is None or not self._names_month(second[1]):
            return None
        last = self._time(first[1] + 1, ranged=True)
        if last is None or last[0].length > _DAY or last[0].begins.day <= first[0]:
            return None
        begins = last[0].begins.replace(day=first[0])
        return Span(begins, begins + _DAY), first[1]

    def _from(self, span: Span, behind: int) -> Reading:
        """Reads "From" a time without "to": the time, or all since then with "on"."""
        if self._is(behind, "on", "onwards", "onward"):
            return Span(span.begins, LAST if self._is_future else self._today.ends), behind + 1
        return span, behind

    def _names_month(self, at: int) -> bool:
        return self._month_number(self._behind(at, "of")) is not None

    # ---- times

    def _time(
        self, at: int, *, ranged: bool = False, which: _Choice | None = None
    ) -> Reading | None:
        if self._depth >= MAX_DEPTH:
            return None
        self._depth += 1
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
        self._depth -= 1
        return read and self._narrowed(*read)

    def _narrowed(self, span: Span, behind: int) -> Reading:
        """Reads a part of a day, or a day of what is longer, behind it: "last week on Friday"."""
        if span.length == _DAY:
            if self._is(behind, "week") and self._is_future:
                return span.moved(_WEEK), behind + 1  # "on Monday week"
            is_led = self._is(behind, "in", "at", "during")
            place = self._behind(behind + 1, "the") if is_led else behind
            place = self._behind(place, "early", "late")
            if hours := words.PARTS_OF_DAY.get(self._word(place)):
                return calendar.hours_of(span, *hours), place + 1
            return span, behind
        is_led = self._is(behind, "on", "in", "at")
        is_owner = self._is_possessive(behind - 1)
        if span.length > _DAY and (is_led or is_owner or self._is_weekday(behind)):
            recurring = self._recurring(self._behind(behind + is_led, "the"), led=True)
            if recurring is not None and (inside := recurring[0].within(span)):
                return self._narrowed(inside[-1], recurring[1])
        return span, behind

    def _distance(self, at: int) -> Reading | None:
        """Reads "Two weeks after" a time, "the week before" it, "the Friday after" it."""
        every = self._is(at, "the", "within")
        start = self._behind(at + every, "first")
        counted = self._count_and_unit(start) or (every and self._unit(start, one=True)) or None
        if every and (vague := words.VAGUE_DISTANCES.get(self._word(start))):
            counted = Counted(vague[0], vague[0]), vague[1], start + 1
        if counted is not None:
            count, unit, behind = counted
            is_ago = self._is(behind, "ago")
            is_week = unit is Unit.WEEK and self._is_future
            if is_ago or (is_week and self._is(behind, "on", "today", "tomorrow")):
                # "A week ago yesterday", "a week on Friday", "a fortnight tomorrow"
                place = self._behind(behind + is_ago, "on")
                day = self._relative(place)
                if day is None and (is_ago or self._is_weekday(place)):
                    day = self._recurring_time(place)
                steps = -count.low if is_ago else count.low
                return day and (day[0].stepped(steps * unit.value), day[1])
            return self._away(count.high, unit, behind, every=every)
        recurring = self._recurring(start, led=True)
        if recurring is not None and self._is(recurring[1], "after", "before", "following"):
            thing, behind = recurring
            if (reference := self._reference(behind + 1)) is None:
                return None
            span, end = reference
            is_before = self._is(behind, "before")
            found = thing.ended(span.begins) if is_before else thing.beginning(span.ends)
            return found and (found, end)
        return None

    def _away(self, count: int, unit: Unit, behind: int, *, every: bool) -> Reading | None:
        if not self._is(behind, "after", "before", "following", "from"):
            return None
        is_before = self._is(behind, "before")
        is_now = self._is(behind + 1, "now")
        reference = (self._today, behind + 2) if is_now else self._reference(behind + 1)
        if reference is None:
            return None
        span, end = reference
        step = count * unit.value
        if self._is(behind, "from") and span is not self._today and span.length <= _DAY:
            return Span(span.begins + step, span.ends + step), end
        if every and is_before:
            return Span(span.begins - step, span.begins), end
        if every:
            return Span(span.ends, span.ends + step), end
        return unit.around(span.begins - step if is_before else span.ends - _DAY + step), end

    def _part(self, at: int) -> Reading | None:
        """Reads "the end of" a time, "early" in it, its "first week", "second Tuesday"."""
        start = self._behind(at, "the", "very")
        if (third := words.THIRDS.get(self._word(start))) is not None:
            return self._third(start, third)
        number = words.NUMBER_OF_PART(self._word(start))
        if number is None:
            return None
        parts = {"half": 2, "quarter": 4}.get(self._word(start + 1))
        unit = self._count_and_unit(start + 1) or self._unit(start + 1, one=True)
        thing = self._recurring(start + 1, led=True)
        behind = start + 2 if parts else unit[2] if unit else thing[1] if thing else at
        if not self._is(behind, "of", "in"):
            return None
        if (whole := self._time(behind + 1) or self._current(behind + 1)) is None:
            return None
        span, end = whole
        if parts:
            return span.part(number % parts, parts), end
        if unit:
            step = unit[0].high * unit[1].value
            if span.begins + step > span.ends:
                return None  # "last year in May"
            begins = span.ends - step if number < 0 else span.begins + number * step
            return Span(begins, begins + step), end
        inside = thing[0].within(span) if thing else []
        return (inside[number], end) if -len(inside) <= number < len(inside) else None

    def _third(self, at: int, third: int) -> Reading | None:
        place = self._behind(at + 1, "-", "in", "of")
        is_adjective = self._is(at, "early", "mid", "late")
        if place == at + 1 and not is_adjective:
            return None
        read = self._time(place, ranged=True) or self._current(place)
        # "Late last night", "early yesterday": of a day there are no parts of whole days.
        is_day = read is not None and read[0].length <= _DAY
        return read if read is None or is_day else (read[0].part(third, 3), read[1])

    def _part_of_day(self, at: int) -> Reading | None:
        """Reads "The morning of" a day, "the evening" on it, "the night before" it."""
        start = self._behind(at, "the")
        hours = words.PARTS_OF_DAY.get(self._word(start))
        if hours is None or start == at:
            return None
        if away := {"after": 1, "before": -1}.get(self._word(start + 1), 0):
            read = self._reference(start + 2)
        else:
            read = self._time(self._behind(start + 1, "of", "on"))
        if read is None or read[0].length > _DAY:
            return None
        return calendar.hours_of(read[0].moved(away * _DAY), *hours), read[1]

    def _current(self, at: int) -> Reading | None:
        """Reads "The week", "the month", "the year" in "the end of the week"."""
        start = self._behind(at, "the")
        unit = self._unit(start, one=True) if start > at else None
        return unit and (_units_at(self._now, unit[0].low, unit[1]), unit[2])

    def _unit_of(self, at: int) -> Reading | None:
        """Reads "The week of" a day, "the month of" June, "the weekend of" the 12th."""
        start = self._behind(at, "the")
        unit = self._unit(start, one=True)
        if not self._is(start + 1, "of") or not (unit or self._is(start, "weekend")):
            return None
        if (read := self._time(start + 2)) is None:
            return None
        if unit is None:
            near = words.WEEKEND.nearest(read[0].begins)
            return near and (near, read[1])
        around = _units_at(read[0].begins, unit[0].low, unit[1])
        return (around if around.length > read[0].length else read[0]), read[1]

    def _absolute(self, at: int) -> Reading | None:
        numbers = [int(digits) for digits in re.findall(r"\d+", self._word(at))]
        match self._kind(at):
            case "iso":
                number, month, day = numbers
            case "dotted":
                day, month, number = numbers
            case "slashed":
                month, day, number = numbers
                if month > 12:
                    month, day = day, month
            case _:
                return None
        return Unit.DAY.around(datetime(full_year(number), month, day)), at + 1

    def _relative(self, at: int) -> Reading | None:
        start = self._behind(at, "the")
        match self._words[start : start + 3]:
            case ["day", "before", "yesterday"]:
                return self._day(-2), start + 3
            case ["day", "after", "tomorrow"]:
                return self._day(2), start + 3
            case ["other", "day" | "night" | "morning" | "afternoon" | "evening", _] if start > at:
                return Span(self._today.begins - _WEEK, self._today.begins), start + 2
            case ["night", "before", "last"]:
                return self._day(-2, "night"), start + 3
            case ["last", "evening" | "night" as part, _]:
                return self._day(-1, part), start + 2
            case [word, _, _] if word in words.DAYS:
                return self._day(words.DAYS[word]), start + 1
            case ["tonight", _, _]:
                return self._day(0, "night"), start + 1
            case ["this", "time", "last" | "next"] if unit := self._unit(start + 3, one=True):
                ahead = -1 if self._is(start + 2, "last") else 1
                part_of = {Unit.YEAR: Unit.MONTH, Unit.MONTH: Unit.WEEK}.get(unit[1], Unit.DAY)
                return part_of.around(self._now + ahead * unit[1].value), unit[2]
            case ["this", "time", "yesterday" | "tomorrow"]:
                return self._relative(start + 2)
            case ["this", part, _] if part in words.PARTS_OF_DAY:
                return self._day(0, part), start + 2
        return self._one_further(start) or self._last_or_next(start, definite=start > at)

    def _day(self, ahead: int, part: str = "") -> Span:
        """A day at a distance from today, or a part of it."""
        day = self._today.moved(ahead * _DAY) if ahead else self._today
        return calendar.hours_of(day, *words.PARTS_OF_DAY[part]) if part else day

    def _one_further(self, at: int) -> Reading | None:
        """Reads "The week before last", "the Friday after next"."""
        unit, thing = self._unit(at, one=True), self._recurring(at, led=True)
        behind = unit[2] if unit else thing[1] if thing else at
        is_next = self._are(behind, ("after", "next"))
        if not is_next and not self._are(behind, ("before", "last")):
            return None
        if unit:
            count, step = unit[0].low, unit[1]
            far = (2 if is_next else -2) * count * step.value
            return _units_at(self._now + far, count, step), behind + 2
        found = thing and self._chosen(thing[0], "next" if is_next else "last", further=1)
        return found and (found, behind + 2)

    def _last_or_next(self, at: int, *, definite: bool) -> Reading | None:
        which = self._word(at)
        start = at + 1
        if self._word(at - 1) in words.OWNING:
            return None  # "my last week at the shop"
        if which == "this" and self._is(start, "past", "last", "coming", "next"):
            which, start, definite = self._word(start), start + 1, True
        if not (which := words.WHICH.get(which, "")):
            return None
        is_past = which in ("last", "past")
        counted = self._count_and_unit(start)
        if counted and which != "this" and counted[2] > start + 1:
            count, unit, behind = counted
            return self._rolling(count.high, unit, forward=not is_past), behind
        if (several := self._count(start)) and is_past:
            things = self._plural(several[1])
            if things and (back := things[0].ended(self._today.begins, back=several[0].high - 1)):
                latest = things[0].ended(self._today.begins)
                assert latest is not None, "an earlier one has ended; this is a bug"
                return Span(back.begins, latest.ends), things[1]
        if read := self._one_unit(which, start, definite=definite):
            return read
        thing = self._recurring(start, led=True)
        found = thing and self._chosen(thing[0], which)
        return thing and found and (found, thing[1])

    def _one_unit(self, which: str, at: int, *, definite: bool) -> Reading | None:
        if (unit := self._unit(at, one=True)) is None:
            return None
        count, step, behind = unit
        is_lately = definite and self._is(at - 3, "in", "over", "within", "during")
        if step in (Unit.MINUTE, Unit.HOUR, Unit.DAY) and not (is_lately and which != "this"):
            # "At the last minute", "the next day", "this day" name no time.
            return None
        if self._is(behind, "of"):
            return None  # "the last week of school"
        if which == "past" or (
            which == "last" and definite and not self._is(at - 1, "previous", "prior")
        ):
            return self._rolling(count.high, step, forward=False), behind
        steps = {"last": -1, "this": 0, "next": 1}[which]
        return _units_at(self._now + steps * count.low * step.value, count.low, step), behind

    def _chosen(self, thing: Recurring, which: str, *, further: int = 0) -> Span | None:
        if which in ("last", "past"):
            return thing.ended(self._today.begins, back=further)
        if which == "next":
            return thing.beginning(self._today.ends, ahead=further)
        if self._tense is Tense.PAST:
            return thing.begun(self._now)
        nearest = thing.nearest(self._now)
        if nearest and (self._is_future or nearest.begins - self._now < 60 * _DAY):
            week = thing.within(Unit.WEEK.around(self._now))
            return week[0] if week and nearest.length <= 2 * _DAY else nearest
        return thing.begun(self._now)

    def _rolling(self, count: int, unit: Unit, *, forward: bool) -> Span:
        """Some units until now, or from now on; of days or more, in whole days."""
        if unit in (Unit.MINUTE, Unit.HOUR):
            other = self._at(count if forward else -count, unit)
            return Span(self._now, other) if forward else Span(other, self._now)
        step = count * unit.value
        if forward:
            return Span(self._today.begins, self._today.ends + step)
        return Span(self._today.begins - step, self._today.ends)

    def _at(self, count: int, unit: Unit) -> datetime:
        """A local time some units from now; hours and minutes pass as they do on a stopwatch."""
        step = count * unit.value
        if unit not in (Unit.MINUTE, Unit.HOUR):
            return Span(self._now, self._now + step).ends
        begins: datetime = self._now.replace(tzinfo=self._zone).astimezone(UTC) + step
        return begins.astimezone(self._zone).replace(tzinfo=None)

    def _counted(self, at: int) -> Reading | None:
        """Reads "Three days ago", "two weekends ago"; "in three days", of the future."""
        counted = self._count_and_unit(at)
        if counted is not None:
            (low, high), unit, behind = counted
            if self._are(behind, ("and", "a", "half")):
                behind += 3
                if unit is Unit.YEAR:
                    low, high, unit = 12 * low + 6, 12 * high + 6, Unit.MONTH
            if self._is(behind, "ago", "back") or (
                self._is(behind, "earlier")
                and behind == len(self._tokens) - 1
                # What is moved is then before the time that it had.
                and words.MOVING.isdisjoint(self._words)
            ):
                begins = unit.around(self._at(-high, unit)).begins
                span = Span(begins, unit.around(self._at(-low, unit)).ends)
                return span.widened(_LEEWAY.get(unit, timedelta())), behind + 1
            # "In three weeks' time"
            is_time = self._is(self._behind(behind, "'"), "time")
            is_ahead = self._is(at - 1, "in") and (
                is_time or self._tense is Tense.FUTURE or self._usual is Tense.FUTURE
            )
            if is_ahead and self._tense is not Tense.PAST:
                begins = unit.around(self._at(low, unit)).begins
                return Span(begins, unit.around(self._at(high, unit)).ends), behind
            return None
        if several := self._count(at):
            things = self._plural(several[1])
            if things and self._is(things[1], "ago"):
                found = things[0].ended(self._today.begins, back=several[0].high - 1)
                return found and (found, things[1] + 1)
            part = self._word(several[1]).removesuffix("s")
            if part in words.PARTS_OF_DAY and self._is(several[1] + 1, "ago"):
                return self._day(-several[0].high, part), several[1] + 2
        return None

    # ---- what comes again

    def _recurring_time(
        self, at: int, *, ranged: bool = False, which: _Choice | None = None
    ) -> Reading | None:
        start = self._behind(at, "the")
        if (read := self._recurring(start, led=ranged or self._is_led(at))) is None:
            return None
        return self._occurrence(*read, which=which)

    def _occurrence(
        self, thing: Recurring, behind: int, *, which: _Choice | None = None
    ) -> Reading | None:
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

    def _longer(self, at: int) -> Reading | None:
        """A year, or another longer time, that says which: "May 2022", "Friday of last week"."""
        start = self._behind(at + self._is(at, ",", "of", "in", "from"), "the")
        if year := self._year_number(start):
            return calendar.year(year), start + 1
        return self._relative(start) or self._counted(start)

    def _recurring(self, at: int, *, led: bool) -> tuple[Recurring, int] | None:
        return (
            self._holiday(at)
            or self._weekday(at)
            or self._day_of_month(at, led=led)
            or self._month(at, led=led)
            or self._season(at, led=led)
        )

    def _plural(self, at: int) -> tuple[Recurring, int] | None:
        word = self._word(at)
        for stem in (word.removesuffix("s"), word.removesuffix("es")):
            thing = words.WITH_PLURAL.get(stem) or self._seasons.get(stem)
            if thing and stem != word:
                return thing, at + 1
        return None

    def _holiday(self, at: int) -> tuple[Recurring, int] | None:
        for named in words.HOLIDAYS_BY_FIRST_WORD.get(self._words[at], ()):
            behind = at + len(named)
            if self._are(at, named):
                holiday = words.HOLIDAYS[named]
                if self._is(behind, "weekend"):
                    return calendar.with_weekend(holiday), behind + 1
                return holiday, behind + (self._word(behind) in words.FREE)
        return None

    def _weekday(self, at: int) -> tuple[Recurring, int] | None:
        before = at - 1 - self._is(at - 1, "other", "second")
        if self._is(before, "each", "every", "a", "any", "another", "some"):
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
        if following[-1:] == "s" and following[:-1] in words.PARTS_OF_DAY:
            return None  # "on Friday evenings"
        is_led = (
            self._is_led(at)
            or self._is(at - 1, "on", "last", "next", "this", "past", "coming", "and", "or")
            or (self._is(at - 1, "the") and self._is(at - 2, "on"))
            or following == "week"
        )
        if is_short and not (self._is_capital(at) and is_led):
            return None
        is_of_unit = self._word(at - 1) in words.UNITS  # "last week's Monday"
        is_owned = self._word(at - 1) in words.OWNING or (
            self._is_possessive(at - 1) and not is_of_unit
        )
        if not is_led and (is_owned or not self._ends_before(behind)):
            # "Albright's Wednesday visit", "whose Saturday": of any week.
            return None
        return calendar.weekly(number), behind

    def _day_of_month(self, at: int, *, led: bool) -> tuple[Recurring, int] | None:
        """Reads "5 May", "the fifth of May", "May 5th"; "the 19th" after a preposition."""
        if self._kind(at) == "short":
            date = self._short_date(at)
            return date and (date, at + 1)
        if (day := self._day_number(at)) is None:
            return self._month_and_day(at)
        return self._day_and_month(*day) or self._day_alone(at, *day, led=led)

    def _day_and_month(
        self, number: int, behind: int, is_ordinal: bool
    ) -> tuple[Recurring, int] | None:
        place = self._behind(behind, "of")
        is_sure = is_ordinal or self._word(place) not in words.AMBIGUOUS_MONTHS
        is_sure = is_sure or self._is_capital(place)
        month = self._month_number(place)
        if month and (is_sure or self._year_number(self._behind(place + 1, ","))):
            return calendar.day_of_year(month, number), place + 1
        return None

    def _day_alone(
        self, at: int, number: int, behind: int, is_ordinal: bool, *, led: bool
    ) -> tuple[Recurring, int] | None:
        """Reads "Her last day is the 3rd", "make it the 17th"; "the first" may be of anything."""
        if self._is_repeated(behind) or self._names_month(behind):
            return None
        is_definite = self._is(at - 1, "the") or self._is_weekday(at - 1)
        listed = self._is(at - 2, "and", "or") and self._day_number(at - 3)
        in_digits = self._kind(at) == "number"
        is_led = (
            led
            or self._word(at - 2) in words.LEADING_TO_DAYS
            or bool(listed and listed[2])
            or (in_digits and (self._is(at - 2, "is", "was") or self._is_possessive(at - 2)))
            or number > (MAX_RANK_IN_DIGITS if in_digits else MAX_RANK_IN_WORDS)
        )
        if is_ordinal and is_definite and is_led and self._ends_before(behind):
            return calendar.monthly(number), behind
        return None

    def _month_and_day(self, at: int) -> tuple[Recurring, int] | None:
        if (month := self._month_number(at)) is None:
            return None
        is_apart = self._is(at + 1, ",") and self._is(at + 2, "the")  # "July, the twelfth"
        day = self._day_number(at + 3 if is_apart else self._behind(at + 1, "the"))
        if day is None:
            return None
        number, behind, is_ordinal = day
        if self._word(at) in words.AMBIGUOUS_MONTHS and not is_ordinal:
            with_year = self._year_number(self._behind(behind, ","))
            is_alone = at == 0 and self._kind(behind) == "other"
            is_date = with_year or self._is_led(at) or self._is_capital(at) or is_alone
            if not (is_date and (with_year or self._ends_before(behind))):
                return None
        return calendar.day_of_year(month, number), behind

    def _short_date(self, at: int) -> Recurring | None:
        """Reads "24/11", "11/24" or "24.11." after a preposition; others are fractions."""
        goes_on = self._is(at - 1, "and", "to") and self._kind(at - 2) == "short"
        if not goes_on and self._word(at - 1) not in words.LEADING_TO_SHORT_DATES:
            return None
        first, second = map(int, re.findall(r"\d+", self._word(at)))
        is_month_first = "/" in self._word(at) and first <= 12
        month, day = (first, second) if is_month_first else (second, first)
        return calendar.day_of_year(month, day) if 1 <= month <= 12 and 1 <= day <= 31 else None

    def _month(self, at: int, *, led: bool) -> tuple[Recurring, int] | None:
        month = self._month_number(at)
        if month is None or self._is(at - 1, "the", "a"):
            return None
        is_listed = self._is(at - 1, "and", "or", ",") and self._month_number(at - 2)
        is_led = (led or is_listed) and not self._is_possessive(at)
        return (calendar.month_of_year(month), at + 1) if is_led or self._longer(at + 1) else None

    def _season(self, at: int, *, led: bool) -> tuple[Recurring, int] | None:
        """Reads "Last summer", "the summer holidays", "the fall" where it is no accident."""
        season = self._seasons.get(self._word(at))
        if season is None or self._is(at - 1, "a", "an"):
            return None
        behind = at + 1 + (self._word(at + 1) in words.FREE)
        if self._longer(behind):
            return season, behind
        # "Before the fall" is seldom about a season, "in the fall" mostly is.
        is_within = self._is(at - 2, "in", "during", "over", "of")
        is_sure = is_within or self._is(behind, "after", "before") or not self._is(at - 1, "the")
        is_hurt = self._is(at, "fall") and not words.HURTING.isdisjoint(self._words)
        if led and is_sure and not is_hurt and self._ends_before(behind):
            return season, behind
        return None

    def _year(self, at: int, *, ranged: bool) -> Reading | None:
        word = self._word(at)
        if word[:1] == "q" and word[1:].isdigit():
            longer = self._longer(at + 1)
            whole = longer[0] if longer else Unit.YEAR.around(self._now)
            return whole.part(int(word[1:]) - 1, 4), longer[1] if longer else at + 1
        if (number := self._year_number(at)) and (ranged or self._is_led(at)):
            return (calendar.year(number), at + 1) if self._ends_before(at + 1) else None
        place = self._behind(at, "the")
        if place == at and self._word(at - 1) not in words.THIRDS:
            return None
        word = self._word(place)
        decade = words.DECADES.get(word)
        written = word.removeprefix("'").removesuffix("s")
        if decade is None and word.endswith("s") and written.isdigit():
            decade = int(written)
        if decade is None or decade % 10:
            return None
        first = decade if decade > 100 else 1900 + decade if decade > 20 else 2000 + decade
        return Unit.DECADE.around(datetime(first, 1, 1)), place + 1


_LEEWAY = {Unit.MINUTE: timedelta(minutes=10), Unit.HOUR: timedelta(hours=1)}
"""The precision of "ten minutes ago"."""


def _around(span: Span) -> timedelta:
    """The distance to both sides of a time that "around" covers."""
    return max(_AROUND_A_DAY, span.length / 4) if span.length >= _DAY else timedelta(hours=6)


def _units_at(instant: datetime, count: int, unit: Unit) -> Span:
    """The unit that has an instant; of three months the quarter, of two weeks both up to it."""
    around = unit.around(instant)
    if count == 3 and unit is Unit.MONTH:
        begins = around.begins - relativedelta(months=(around.begins.month - 1) % 3)
        return Span(begins, begins + relativedelta(months=3))
    return Span(around.begins - (count - 1) * unit.value, around.ends)
