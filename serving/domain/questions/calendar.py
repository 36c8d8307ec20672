"""Spans of local time, and what comes again: weekdays, months, seasons, holidays.

Times here are without a zone, as a calendar on a wall has them: a day of summer time begins at
midnight like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from enum import Enum
from itertools import islice
from typing import NamedTuple

from dateutil.easter import easter
from dateutil.relativedelta import relativedelta

MAX_YEARS = 12
"""The years that are searched to each side for something that comes once a year."""

MAX_MONTHS = 15
"""The months that are searched to each side for something that comes once a month."""

MAX_WEEKS = 54
"""The weeks that are searched to each side for something that comes once a week."""

FIRST = datetime(1, 1, 1)
LAST = datetime(9999, 12, 31)

_DAY = timedelta(days=1)


class Span(NamedTuple):
    """The half-open interval [`begins`, `ends`) of local time."""

    begins: datetime
    ends: datetime

    @property
    def length(self) -> timedelta:
        """Its duration."""
        return self.ends - self.begins

    def moved(self, by: timedelta) -> Span:
        """The span, later by a time."""
        return Span(self.begins + by, self.ends + by)

    def stepped(self, step: relativedelta) -> Span:
        """The span, later by a step of the calendar of its beginning."""
        return self.moved(self.begins + step - self.begins)

    def widened(self, by: timedelta) -> Span:
        """The span with some time before and after it."""
        return Span(self.begins - by, self.ends + by)

    def part(self, number: int, of: int) -> Span:
        """One of several equal parts, in whole days, of years in whole months.

        Args:
            number: Which part; counts from 0.
            of: The number of parts, of a year a divisor of 12.
        """
        if self == Unit.YEAR.around(self.begins):
            months = relativedelta(months=12 // of)
            return Span(self.begins + number * months, self.begins + (number + 1) * months)
        length = self.length / of
        begins, ends = self.begins + number * length, self.begins + (number + 1) * length
        return Span(_midnight(begins), _midnight(ends))


class Unit(Enum):
    """A unit of time; its value is a step of the calendar."""

    MINUTE = relativedelta(minutes=1)
    HOUR = relativedelta(hours=1)
    DAY = relativedelta(days=1)
    WEEK = relativedelta(weeks=1)
    MONTH = relativedelta(months=1)
    YEAR = relativedelta(years=1)
    DECADE = relativedelta(years=10)
    CENTURY = relativedelta(years=100)

    def around(self, instant: datetime) -> Span:
        """The minute, hour, day, week (from Monday), month ... that has the instant."""
        begins = self._begin(instant)
        return Span(begins, begins + self.value)

    def _begin(self, instant: datetime) -> datetime:
        match self:
            case Unit.MINUTE:
                return instant.replace(second=0, microsecond=0)
            case Unit.HOUR:
                return instant.replace(minute=0, second=0, microsecond=0)
            case Unit.DAY:
                return _midnight(instant)
            case Unit.WEEK:
                return _midnight(instant) - instant.weekday() * _DAY
            case Unit.MONTH:
                return _midnight(instant).replace(day=1)
            case Unit.YEAR:
                return _year(instant.year)
            case Unit.DECADE:
                return _year(max(1, instant.year // 10 * 10))
            case Unit.CENTURY:
                return _year(max(1, instant.year // 100 * 100))


class Recurring(NamedTuple):
    """Something that comes again, such as Friday, May, the 19th, summer, Christmas.

    `near` lists its spans around an instant, in order.
    """

    near: Callable[[datetime], Iterator[Span]]

    def begun(self, by: datetime) -> Span | None:
        """The latest that has begun."""
        found = [span for span in self.near(by) if span.begins <= by]
        return found[-1] if found else None

    def ended(self, by: datetime, *, back: int = 0) -> Span | None:
        """The latest that is over, or the one that many before it."""
        found = [span for span in self.near(by) if span.ends <= by]
        return found[-1 - back] if len(found) > back else None

    def beginning(self, after: datetime, *, ahead: int = 0) -> Span | None:
        """The first that begins at an instant or later, or the one that many behind it."""
        found = (span for span in self.near(after) if span.begins >= after)
        return next(islice(found, ahead, None), None)

    def nearest(self, instant: datetime) -> Span | None:
        """The span that has the instant, or else the nearest to it."""
        return min(
            self.near(instant),
            key=lambda span: max(span.begins - instant, instant - span.ends, timedelta()),
            default=None,
        )

    def within(self, span: Span) -> list[Span]:
        """The spans that begin within a span."""
        return [each for each in self.near(span.begins) if span.begins <= each.begins < span.ends]


def weekly(weekday: int, days: int = 1) -> Recurring:
    """Days of each week from a weekday on; Monday is 0."""

    def near(instant: datetime) -> Iterator[Span]:
        day = _midnight(instant) + (weekday - instant.weekday()) * _DAY
        for week in range(-MAX_WEEKS, MAX_WEEKS):
            begins = day + timedelta(weeks=week)
            yield Span(begins, begins + days * _DAY)

    return Recurring(near)


def monthly(day: int) -> Recurring:
    """A day of each month that has it."""

    def near(instant: datetime) -> Iterator[Span]:
        this_month = _months(instant)
        for month in range(this_month - MAX_MONTHS, this_month + MAX_MONTHS):
            begins = _month(month) + (day - 1) * _DAY
            if begins.day == day:
                yield Span(begins, begins + _DAY)

    return Recurring(near)


def yearly(span_in: Callable[[int], Span]) -> Recurring:
    """A time that comes once a year; `span_in` raises ValueError for a year without it."""

    def near(instant: datetime) -> Iterator[Span]:
        for year in range(instant.year - MAX_YEARS, instant.year + MAX_YEARS):
            try:
                yield span_in(year)
            except (ValueError, OverflowError):
                continue  # 29 February, or outside of Python's calendar

    return Recurring(near)


def day_of_year(month: int, day: int, days: int = 1) -> Recurring:
    """A day of each year, or some days from it on."""
    return yearly(lambda year: _days(date(year, month, day), days))


def month_of_year(month: int, months: int = 1) -> Recurring:
    """A month of each year, or some months from it on, as of a season."""

    def span_in(year: int) -> Span:
        first = 12 * year + month - 1
        return Span(_month(first), _month(first + months))

    return yearly(span_in)


def after_easter(days_after: int, days: int = 1) -> Recurring:
    """A day at a distance from Easter Sunday (of the western churches), or some days from it on."""
    return yearly(lambda year: _days(easter(year) + days_after * _DAY, days))


def nth_weekday(number: int, weekday: int, month: int, days_after: int = 0) -> Recurring:
    """The day of a month that is its first, second ... such weekday, or some days after that."""

    def span_in(year: int) -> Span:
        first = date(year, month, 1)
        offset = (weekday - first.weekday()) % 7 + 7 * (number - 1) + days_after
        return _days(first + offset * _DAY)

    return yearly(span_in)


def on(weekday: int, day: Recurring) -> Recurring:
    """A day that comes again, when it is on a day of the week; any if it never is."""

    def near(instant: datetime) -> Iterator[Span]:
        days = list(day.near(instant))
        yield from [each for each in days if each.begins.weekday() == weekday] or days

    return Recurring(near)


def with_weekend(days: Recurring) -> Recurring:
    """Days that come again, with the weekend that is nearest to them."""

    def near(instant: datetime) -> Iterator[Span]:
        for begins, ends in days.near(instant):
            # From Tuesday on the next Saturday is nearer, before that the one before.
            saturday = begins + ((5 - begins.weekday() + 3) % 7 - 3) * _DAY
            yield Span(min(begins, saturday), max(ends, saturday + 2 * _DAY))

    return Recurring(near)


def year(number: int) -> Span:
    """A year of the calendar."""
    return Span(_year(number), _year(number + 1))


def hours_of(day: Span, begins: int, ends: int) -> Span:
    """Hours of the first day of a span; above 24 they are those of the next day."""
    midnight = day.begins
    return Span(midnight + timedelta(hours=begins), midnight + timedelta(hours=ends))


def _days(first: date, days: int = 1) -> Span:
    begins = datetime.combine(first, time())
    return Span(begins, begins + days * _DAY)


def _midnight(instant: datetime) -> datetime:
    return datetime.combine(instant.date(), time())


def _months(instant: datetime) -> int:
    return 12 * instant.year + instant.month - 1


def _month(number: int) -> datetime:
    return datetime(number // 12, number % 12 + 1, 1)


def _year(number: int) -> datetime:
    return datetime(number, 1, 1)
