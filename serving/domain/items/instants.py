"""Instants as whole microseconds since 1970, which compare faster than datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from serving.domain.items.validity import Clocks, Closing

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
BEFORE_ALL, AFTER_ALL = -(2**63), 2**63 - 1
"""Bounds of all instants, those of int64."""


def microseconds(instant: datetime) -> int:
    """The instant in microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


def instant_of(microseconds: int) -> datetime:
    """The instant at a number of microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=microseconds)


class Span(NamedTuple):
    """The instants from `since` to `until`, exclusive."""

    since: int
    until: int

    def has(self, instant: int) -> bool:
        """Whether it includes the instant."""
        return self.since <= instant < self.until


class ClockTimes(NamedTuple):
    """The clocks of a query in microseconds.

    A fact counts if it was recorded by `recorded_by` (None: at any time) and not retracted by
    `retracted_by` (the last instant: ever).
    """

    as_of: int
    recorded_by: int | None
    retracted_by: int

    @classmethod
    def of(cls, clocks: Clocks) -> ClockTimes:
        """Converts the clocks of a query."""
        as_of = microseconds(clocks.as_of)
        if clocks.known_at is None:
            return cls(as_of, None, AFTER_ALL - 1)
        known_at = microseconds(clocks.known_at)
        return cls(as_of, known_at, known_at)


def times_of(closing: Closing) -> tuple[int, int, int]:
    """When the fact ended, when that was recorded, and when it was retracted."""
    retracted_at = closing.retracted_at
    return (
        microseconds(closing.at),
        microseconds(closing.recorded_at),
        AFTER_ALL if retracted_at is None else microseconds(retracted_at),
    )
