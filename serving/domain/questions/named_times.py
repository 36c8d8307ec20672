"""The times that a question names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from serving.domain.items.period import Period

_A_WEEK = timedelta(weeks=1)


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
