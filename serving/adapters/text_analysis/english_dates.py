"""Dates in English questions: "on 1 May 2022", "two weeks after last Friday".

Patterns find the dates; the library dateparser interprets them and their granularity: a day, a
week, a month or a year. The library's own search takes ten milliseconds and reads every "may" as a
month.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice

from dateparser.date import DateDataParser

from serving.domain.languages import ENGLISH
from serving.domain.questions.period import Period

MAX_DATES = 4
"""The dates read per question; each takes up to three milliseconds."""

_MONTH = rf"(?:{'|'.join(ENGLISH.months)})\b\.?"
_DAY = f"(?:{'|'.join(ENGLISH.weekdays)})"
_DAY_OF_MONTH = r"\d{1,2}(?:st|nd|rd|th)?"
_YEAR = r"(?:1[89]|20|21)\d\d"
_COUNT = rf"(?:\d{{1,3}}|{'|'.join(ENGLISH.counts)})"

_DATE = re.compile(
    rf"""(?<![\w.])(?:
      (?P<absolute>
          {_DAY_OF_MONTH}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?
        | {_MONTH}\s+{_DAY_OF_MONTH}(?!\d)(?:,?\s+{_YEAR})?
        | {_MONTH},?\s+(?:of\s+)?{_YEAR}
        | {_YEAR}-\d\d-\d\d
        | \d{{1,2}}/\d{{1,2}}/{_YEAR}
      )
    | (?P<dotted> \d{{1,2}}\.\d{{1,2}}\.{_YEAR} )
    | (?:last|past|this)\s+(?P<weekend> weekend )
    | (?P<relative>
          {_COUNT}\s+(?:day|week|month|year)s?\s+ago
        | (?:last|past|this|next)\s+(?:week|month|year|{_DAY})
        | (?:the\s+day\s+before\s+)?yesterday | tomorrow | today
      )
    | (?:on|since|before|after)\s+(?P<weekday> {_DAY} )
    | (?:in|during|since|until|by|before|after|of|last)\s+(?P<month> {_MONTH} )(?!,?\s+\d)
    | (?:in|during|since|until|by|before|after|of)\s+(?P<year> {_YEAR} )
    )(?!\w)""",
    re.IGNORECASE | re.VERBOSE,
)

_DISTANCE = re.compile(
    rf"""(?<!\w)
    (?: (?P<every>(?:the|within)(?:\s+first)?)(?:\s+(?P<span>{_COUNT}))? | (?P<single>{_COUNT}) )
    \s+(?P<unit>day|week|month|year)s?
    \s+(?P<way>after|before)\s+(?:(?:last|past|this)\s+)?$""",
    re.IGNORECASE | re.VERBOSE,
)
"""A distance from the date that follows it, such as "two weeks after"."""

_LONGEST_DISTANCE = 48
"""The characters searched before each date, so that a long question is not searched again."""

_LASTS = {"weekend": timedelta(days=2), "week": timedelta(weeks=1)}
_A_DAY = timedelta(days=1)


class EnglishDates:
    """`DateReader` for English.

    Days are those of the zone of `as_of`. A date without a year, or a day of the week, is the
    latest one before `as_of`.
    "Two weeks after" a date is the week at that distance from its last day, as "two weeks ago" is
    the week at that distance from today; "the two weeks after" are all of their days. Vague times
    ("recently", "last summer") and times relative to events ("a week after the wedding") are
    ignored.
    """

    def __init__(self) -> None:
        # Loads the language data, which takes a third of a second.
        self.periods("today", datetime.now(UTC))

    def periods(self, question: str, as_of: datetime) -> tuple[Period, ...]:
        # As a calendar has it: within a zone with summer time, days differ in length.
        today = as_of.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
        zone = as_of.tzinfo or UTC
        found = (
            _period_or_none(match, today, zone)
            for match in islice(_DATE.finditer(question), MAX_DATES)
        )
        return tuple(period for period in found if period is not None)


def _period_or_none(match: re.Match[str], today: datetime, zone: tzinfo) -> Period | None:
    try:
        read = _period(match, today)
        return read and Period(_instant(read.begins, zone), _instant(read.ends, zone))
    except (OverflowError, ValueError):
        # Outside the years 1 to 9999 of Python's calendar.
        return None


def _instant(midnight: datetime, zone: tzinfo) -> datetime:
    return midnight.replace(tzinfo=zone).astimezone(UTC)


def _period(match: re.Match[str], today: datetime) -> Period | None:
    named = match.lastgroup
    assert named is not None, "every branch of the pattern has a name; this is a bug"
    text = "saturday" if named == "weekend" else match[named]
    read = _read(text, today, "DMY" if named == "dotted" else "MDY")
    if read is None:
        return None
    day, lasts = read
    period = _around(day, "weekend" if named == "weekend" else lasts)
    begins = match.start(named)
    distance = _DISTANCE.search(match.string, max(0, begins - _LONGEST_DISTANCE), begins)
    return period if distance is None else _away(distance, period)


def _away(distance: re.Match[str], period: Period) -> Period | None:
    """The period at a distance before the first, or after the last, day of another."""
    is_after = distance["way"].lower() == "after"
    count = distance["span"] or distance["single"] or "one"
    how_far = f"{count} {distance['unit']}"
    read = _read(
        f"in {how_far}" if is_after else f"{how_far} ago",
        period.ends - _A_DAY if is_after else period.begins,
    )
    if read is None:
        return None
    day, lasts = read
    if distance["every"] is None:
        return _around(day, lasts)
    return Period(period.ends, day + _A_DAY) if is_after else Period(day, period.begins)


def _read(text: str, today: datetime, order: str = "MDY") -> tuple[datetime, str] | None:
    """The day that a text refers to, and its granularity: day, week, month or year."""
    parser = DateDataParser(
        languages=["en"],
        settings={
            "RELATIVE_BASE": today.replace(tzinfo=None),
            "PREFER_DATES_FROM": "past",
            "DATE_ORDER": order,
        },
    )
    read = parser.get_date_data(text)
    if read.date_obj is None or read.period is None:
        return None
    midnight = read.date_obj.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    return midnight, read.period


def _around(day: datetime, lasts: str) -> Period:
    """The day, the weekend that starts with it, or the week, month or year that contains it."""
    if lasts == "year":
        begins = day.replace(month=1, day=1)
        return Period(begins, begins.replace(year=begins.year + 1))
    if lasts == "month":
        begins = day.replace(day=1)
        return Period(begins, (begins + timedelta(days=32)).replace(day=1))
    begins = day - timedelta(days=day.weekday()) if lasts == "week" else day
    return Period(begins, begins + _LASTS.get(lasts, _A_DAY))
