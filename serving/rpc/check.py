"""Checks the fields of requests, and collects all violations before rejecting the request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Self

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from serving.domain.errors import InvalidRequestError, Violation
from serving.domain.items.records import TenantName
from serving.domain.questions.query import TimeRange
from serving.domain.questions.time_zones import parse_time_zone
from serving.domain.words.normal_form import normal_form
from trivium.v1 import filter_pb2
from trivium.v1 import ingest_service_pb2 as ingest_pb

MAX_ID_BYTES = 256
MAX_FILTER_VALUES = 64


class Checker:
    """Collects the violations of a request.

    As a context, it raises `InvalidRequestError` at its end with all of them, if there are any.
    """

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def reject(self, field: str, description: str) -> None:
        """Records that a field is invalid."""
        self.violations.append(Violation(field, description))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None and self.violations:
            raise InvalidRequestError(self.violations)

    def text(self, field: str, value: str, max_bytes: int, *, required: bool = False) -> str:
        """Checks that a string is not too long, has no NUL, and shows something if required."""
        size = len(value.encode())
        if required and not normal_form(value).strip():
            self.reject(field, "must not be blank")
        elif size > max_bytes:
            self.reject(field, f"must be at most {max_bytes} bytes, has {size}")
        elif "\x00" in value:
            self.reject(field, "must not contain NUL")
        return value

    def tenant(self, value: str) -> TenantName:
        """Checks the tenant, which every request must name."""
        return TenantName(self.text("tenant", value, MAX_ID_BYTES, required=True))

    def texts(
        self,
        field: str,
        values: Sequence[str],
        max_count: int,
        max_bytes: int,
        *,
        blank: bool = False,
    ) -> tuple[str, ...]:
        """Checks a list of strings, which may be blank only if `blank`."""
        if len(values) > max_count:
            self.reject(field, f"must have at most {max_count} values, has {len(values)}")
            return ()
        for place, value in enumerate(values):
            self.text(f"{field}[{place}]", value, max_bytes, required=not blank)
        return tuple(values)

    def number(self, field: str, value: float, low: float, high: float) -> float:
        """Checks a finite number between `low` and `high`, both included."""
        if not (math.isfinite(value) and low <= value <= high):
            self.reject(field, f"must be from {low:g} to {high:g}, is {value:g}")
        return value

    def instant(self, field: str, value: Timestamp) -> datetime:
        """Reads an instant between the years 1 and 9999."""
        try:
            return value.ToDatetime(tzinfo=UTC)
        except (ValueError, OverflowError):
            self.reject(field, "must be between the years 1 and 9999")
            return datetime.min.replace(tzinfo=UTC)

    def optional_instant(self, field: str, message: Message) -> datetime | None:
        """Reads the instant in the field of a message that the path `field` ends with."""
        name = field.rpartition(".")[2]
        return self.instant(field, getattr(message, name)) if message.HasField(name) else None

    def version(
        self, field: str, message: ingest_pb.PatchRequest | ingest_pb.IngestItem
    ) -> int | None:
        """Reads the `if_version` of a message; None if the item may have any."""
        if not message.HasField("if_version"):
            return None
        if message.if_version < 1:
            self.reject(field, f"must be at least 1, is {message.if_version}")
        return message.if_version

    def time_zone(self, field: str, name: str) -> tzinfo | None:
        """Reads a name of the IANA database, or an offset such as "-08:00"; None if empty."""
        try:
            return parse_time_zone(name) if name else None
        except ValueError as error:
            self.reject(field, str(error))
            return None

    def time_range(self, field: str, value: filter_pb2.TimeRange) -> TimeRange:
        """Reads a half-open interval."""
        start = self.optional_instant(f"{field}.start", value)
        end = self.optional_instant(f"{field}.end", value)
        if start is not None and end is not None and end <= start:
            self.reject(f"{field}.end", "must be after start")
        return TimeRange(start, end)

    def duration(self, field: str, value: Duration) -> float:
        """Reads a positive duration, in seconds."""
        seconds = value.seconds + value.nanos / 1e9
        if not seconds > 0:
            self.reject(field, "must be positive")
        return seconds
