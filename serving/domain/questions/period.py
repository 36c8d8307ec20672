"""A time period that a question names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

MAX_MENTION = timedelta(days=92)
"""The longest time that a turn is said to speak of: a season."""

_NONE = timedelta(0)
_A_WEEK = timedelta(weeks=1)


@dataclass(frozen=True, slots=True)
class Period:
    """The half-open interval [`begins`, `ends`), timezone-aware; `ValueError` if it ends before."""

    begins: datetime
    ends: datetime

    def __post_init__(self) -> None:
        if self.ends < self.begins:
            raise ValueError(f"a period from {self.begins} cannot end at {self.ends}")

    @property
    def length(self) -> timedelta:
        """How long it lasts."""
        return self.ends - self.begins

    def distance(self, instant: datetime) -> timedelta:
        """The distance of an instant to the nearer end; zero within the period."""
        return max(self.begins - instant, instant - self.ends, _NONE)


@dataclass(frozen=True, slots=True)
class NamedTimes:
    """The times that a question names.

    `alone`: it names nothing else, as in "What happened yesterday?". `earliest_first`: it asks for
    the beginning of them, as in "What was the first thing we talked about?".
    """

    periods: tuple[Period, ...] = ()
    alone: bool = False
    earliest_first: bool = False


def longest_about(period: Period) -> timedelta:
    """The longest time of which a period is what is spoken about: of a day its week."""
    return max(period.length, _A_WEEK)
