"""Reads the dates that a question in English names: "on 1 May 2022", "two weeks after last Friday".

Where a date may stand is told here, by patterns; what it means, by the library dateparser, which
knows how long what it read lasts: a day, a week, a month, a year. Patterns come first since the
library's own search takes ten milliseconds, and takes "may" for a month wherever it stands.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import islice

from dateparser.date import DateDataParser

from serving.domain.period import Period

MAX_DATES = 4
"""The dates of a question that are read; each takes up to three milliseconds."""

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_DAY_OF_MONTH = r"\d{1,2}(?:st|nd|rd|th)?"
_YEAR = r"(?:1[89]|20|21)\d\d"
_COUNT = r"(?:\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"

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
"""How far from the date that follows the question means: it ends where that begins."""

_LONGEST_DISTANCE = 48
"""Characters in which it stands, so that a long question is not read for each of its dates."""

_LASTS = {"weekend": timedelta(days=2), "week": timedelta(weeks=1)}
_A_DAY = timedelta(days=1)


class EnglishDates:
    """The `DateReader` for English.

    Days are those of UTC. A date without a year, and a day of the week, is the last before the
    question's clock. "Two weeks after" a date is the week that far from its last day, as "two
    weeks ago" is the week that far from today; "the two weeks after" it are all of their days.
    What means nothing certain ("recently", "last summer") is not read, nor what is said from an
    event on ("a week after the wedding").
    """

    def __init__(self) -> None:
        # The first of them loads the language's words, for a third of a second.
        self.periods("today", datetime.now(UTC))

    def periods(self, question: str, as_of: datetime) -> tuple[Period, ...]:
        """The periods that the question names, in its order; at most `MAX_DATES`.

        Args:
            question: Any text.
            as_of: When it is asked, with its zone.
        """
        today = as_of.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        found = (
            _period_or_none(match, today) for match in islice(_DATE.finditer(question), MAX_DATES)
        )
        return tuple(period for period in found if period is not None)


def _period_or_none(match: re.Match[str], today: datetime) -> Period | None:
    try:
        return _period(match, today)
    except (OverflowError, ValueError):
        # Before the year 1 or after 9999, where Python's calendar ends.
        return None


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
    """The period that is so far before the first, or after the last day of another."""
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
    """The day that a text means, and how long what it says lasts: a day, week, month or year."""
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
    """The day, the weekend that begins with it, or the week, month or year that it is in."""
    if lasts == "year":
        begins = day.replace(month=1, day=1)
        return Period(begins, begins.replace(year=begins.year + 1))
    if lasts == "month":
        begins = day.replace(day=1)
        return Period(begins, (begins + timedelta(days=32)).replace(day=1))
    begins = day - timedelta(days=day.weekday()) if lasts == "week" else day
    return Period(begins, begins + _LASTS.get(lasts, _A_DAY))
