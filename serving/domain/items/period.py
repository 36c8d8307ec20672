"""Periods of time: those that questions name, and those that segments speak of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

MAX_MENTION = timedelta(days=92)
"""The longest time that a turn is said to speak of: a season."""

_NONE = timedelta(0)


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """The half-open interval [`begins`, `ends`), timezone-aware; `ValueError` if it ends before."""

    begins: datetime
    ends: datetime

    def __post_init__(self) -> None:
        if self.ends < self.begins:
            raise ValueError(f"a period from {self.begins} cannot end at {self.ends}")

    @property
    def length(self) -> timedelta:
        """Its duration."""
        return self.ends - self.begins

    def distance(self, instant: datetime) -> timedelta:
        """The distance of an instant to the nearer end; zero within the period."""
        return max(self.begins - instant, instant - self.ends, _NONE)


def disjoint(periods: Iterable[Period]) -> tuple[Period, ...]:
    """The periods in order of time; those that overlap or adjoin are one.

    A period that would make one longer than `MAX_MENTION` is left out.
    """
    parts: set[Period] = set()
    for period in periods:
        touched = {
            each for each in parts if each.begins <= period.ends and period.begins <= each.ends
        }
        begins = min(each.begins for each in (period, *touched))
        whole = Period(begins, max(each.ends for each in (period, *touched)))
        if whole.length <= MAX_MENTION:
            parts = parts - touched | {whole}
    return tuple(sorted(parts))
