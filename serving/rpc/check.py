"""Checking requests by hand: all that is wrong is gathered, then refused at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from serving.domain.errors import InvalidRequestError, Violation
from serving.domain.query import TimeRange
from serving.domain.records import TenantName
from trivium.v1 import filter_pb2

MAX_ID_BYTES = 256
MAX_FILTER_VALUES = 64

Value = TypeVar("Value")


class Checker:
    """Gathers what is wrong with a request."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def refuse(self, field: str, description: str) -> None:
        """Notes that a field is malformed."""
        self.violations.append(Violation(field, description))

    def finish(self) -> None:
        """Refuses the request if anything is wrong.

        Raises:
            InvalidRequestError: Something is; names all of it.
        """
        if self.violations:
            raise InvalidRequestError(self.violations)

    def text(self, field: str, value: str, max_bytes: int, *, required: bool = False) -> str:
        """Checks a string's length, that it has no NUL, and that it is there if it must be."""
        size = len(value.encode())
        if required and not value.strip():
            self.refuse(field, "must not be blank")
        elif size > max_bytes:
            self.refuse(field, f"must be at most {max_bytes} bytes, has {size}")
        elif "\x00" in value:
            self.refuse(field, "must not contain NUL")
        return value

    def tenant(self, value: str, field: str = "tenant") -> TenantName:
        """Checks the tenant: without one there is no answer."""
        return TenantName(self.text(field, value, MAX_ID_BYTES, required=True))

    def texts(
        self, field: str, values: Sequence[str], max_count: int, max_bytes: int
    ) -> tuple[str, ...]:
        """Checks a list of strings, none of which may be blank."""
        if len(values) > max_count:
            self.refuse(field, f"must have at most {max_count} values, has {len(values)}")
            return ()
        for place, value in enumerate(values):
            self.text(f"{field}[{place}]", value, max_bytes, required=True)
        return tuple(values)

    def number(self, field: str, value: float, low: float, high: float) -> float:
        """Checks a finite number between `low` and `high`, both included."""
        if not (math.isfinite(value) and low <= value <= high):
            self.refuse(field, f"must be from {low:g} to {high:g}, is {value:g}")
        return value

    def instant(self, field: str, value: Timestamp) -> datetime:
        """Reads an instant between the years 1 and 9999."""
        try:
            return value.ToDatetime(tzinfo=UTC)
        except (ValueError, OverflowError):
            self.refuse(field, "must be between the years 1 and 9999")
            return datetime.min.replace(tzinfo=UTC)

    def time_range(self, field: str, value: filter_pb2.TimeRange) -> TimeRange:
        """Reads a half-open interval."""
        start = (
            self.instant(f"{field}.from", getattr(value, "from"))
            if value.HasField("from")
            else None
        )
        end = self.instant(f"{field}.to", value.to) if value.HasField("to") else None
        if start is not None and end is not None and end <= start:
            self.refuse(f"{field}.to", "must be after from")
        return TimeRange(start, end)

    def duration(self, field: str, value: Duration) -> float:
        """Reads a positive duration, in seconds."""
        seconds = value.seconds + value.nanos / 1e9
        if not seconds > 0:
            self.refuse(field, "must be positive")
        return seconds

    def parsed(self, field: str, parse: Callable[[], Value], expected: str) -> Value | None:
        """Runs a parser that raises ValueError."""
        try:
            return parse()
        except ValueError:
            self.refuse(field, f"must be {expected}")
            return None
