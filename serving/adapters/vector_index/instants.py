"""Instants as microseconds, which is how columns keep them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np

from serving.domain.validity import Clocks, Closing

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
BEFORE_ALL = np.iinfo(np.int64).min
AFTER_ALL = np.iinfo(np.int64).max


def microseconds(instant: datetime) -> int:
    """The instant in microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


class Span(NamedTuple):
    """The instants from `since` on and before `until`."""

    since: int
    until: int

    def has(self, instant: int) -> bool:
        """Whether the instant is one of them."""
        return self.since <= instant < self.until

    def and_also(self, other: Span) -> Span:
        """The instants that are in both."""
        return Span(max(self.since, other.since), min(self.until, other.until))


class ClockTimes(NamedTuple):
    """The clocks of a question in microseconds, as what they let count."""

    as_of: int
    recorded_by: int | None
    retracted_by: int

    @classmethod
    def of(cls, clocks: Clocks) -> ClockTimes:
        """Reads the clocks of a question."""
        as_of = microseconds(clocks.as_of)
        if clocks.known_at is None:
            return cls(as_of, None, as_of)
        known_at = microseconds(clocks.known_at)
        return cls(as_of, known_at, known_at)


def times_of(closing: Closing) -> tuple[int, int, int]:
    """When it ended the truth, when that was recorded, and when retracted."""
    retracted_at = closing.retracted_at
    return (
        microseconds(closing.at),
        microseconds(closing.recorded_at),
        AFTER_ALL if retracted_at is None else microseconds(retracted_at),
    )
