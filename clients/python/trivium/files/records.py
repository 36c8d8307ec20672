"""Reads JSON lines, checks the types of their fields, and reports problems with their place."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from trivium.wire.surrogates import LONE_SURROGATE, has_lone_surrogate

STDIN = "-"
"""The path of standard input."""
TOO_DEEP = "is nested too deeply"
ASSUMED_UTC = timezone(timedelta(0), "UTC")
"""The zone of times that are written without one; no other time has this object."""


class Place(NamedTuple):
    """A line of a file, from 1, and the part of it that is meant, such as "results[3]"."""

    file: str
    line: int
    part: str = ""

    def __str__(self) -> str:
        part = f": {self.part}" if self.part else ""
        return f"{self.file}:{self.line}{part}"


class Problem(NamedTuple):
    """A line that cannot be read, and why."""

    place: Place
    description: str

    def __str__(self) -> str:
        return f"{self.place}: {self.description}"


Report = Callable[[Problem], None]
"""Called for each problem; reading then continues."""


class Line(NamedTuple):
    """A line that is not blank, stripped."""

    place: Place
    text: str


def read_lines(path: str, report: Report) -> Iterator[Line]:
    """Reads the lines of a UTF-8 file that are not blank.

    Raises:
        OSError: The file cannot be read.
    """
    with _opened(path) as file:
        for number, encoded in enumerate(file, start=1):
            place = Place("stdin" if path == STDIN else path, number)
            try:
                text = encoded.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError:
                report(Problem(place, "is not UTF-8"))
                continue
            if text:
                yield Line(place, text)


def _opened(path: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if path == STDIN else Path(path).open("rb")


@dataclass(frozen=True, slots=True)
class Record:
    """The JSON object of one line.

    Every method raises `ValueError` if the field is not of its type; a field
    that is absent or null is empty.
    """

    place: Place
    fields: Mapping[str, object]

    def check_names(self, known: Collection[str]) -> None:
        """Rejects unknown fields, since a misspelt "sensitive" must not be ignored."""
        unknown = sorted(self.fields.keys() - set(known))
        if unknown:
            raise ValueError(f"unknown field {unknown[0]!r}, known are {', '.join(sorted(known))}")

    def string(self, name: str) -> str:
        """A string."""
        value = self.fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ValueError(f"{name!r} must be a string, got {value!r}")
        return value

    def needed(self, name: str) -> str:
        """A string that must not be blank."""
        value = self.string(name)
        if not value.strip():
            raise ValueError(f"{name!r} is missing or blank")
        return value

    def strings(self, name: str) -> tuple[str, ...]:
        """A list of strings; one string is a list of one."""
        value = self.fields.get(name)
        if value is None:
            return ()
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError(f"{name!r} must be a list of strings, got {value!r}")
        return tuple(value)

    def labels(self, name: str) -> dict[str, str]:
        """An object whose values are strings."""
        value = self.fields.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            raise ValueError(f"{name!r} must be an object of strings, got {value!r}")
        return value

    def number(self, name: str) -> float | None:
        """A number."""
        value = self.fields.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name!r} must be a number, got {value!r}")
        return float(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self.fields.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise ValueError(f"{name!r} must be true or false, got {value!r}")
        return value

    def time(self, name: str) -> datetime | None:
        """An ISO 8601 time, in UTC if it has no time zone."""
        value = self.string(name)
        if not value:
            return None
        try:
            instant = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{name!r} must be an ISO 8601 time, got {value!r}") from None
        return instant if instant.tzinfo else instant.replace(tzinfo=ASSUMED_UTC)


def read_record(line: Line) -> Record:
    """Reads the JSON object of a line.

    Raises:
        ValueError: It is not a JSON object, or has a lone surrogate.
    """
    try:
        value = json.loads(line.text)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    # Decoded UTF-8 has no lone surrogates; only JSON escapes can contain them.
    return to_record(line.place, value, escaped="\\u" in line.text)


def to_record(place: Place, value: object, *, escaped: bool = True) -> Record:
    """A parsed JSON value as a record; `escaped` if its text may have had escapes.

    Raises:
        ValueError: It is not an object, or has a lone surrogate.
    """
    if not isinstance(value, dict):
        raise ValueError("is not a JSON object")
    if escaped:
        _check_surrogates(value)
    return Record(place, value)


def _check_surrogates(fields: Mapping[str, object]) -> None:
    for name, value in fields.items():
        try:
            found = has_lone_surrogate((name, value))
        except RecursionError:
            raise ValueError(TOO_DEEP) from None
        if found:
            raise ValueError(f"{name!r} {LONE_SURROGATE}")


_Result = TypeVar("_Result")


def read_records(
    lines: Iterator[Line], read: Callable[[Record], _Result], report: Report
) -> Iterator[_Result]:
    """Reads each line with `read`; lines that raise `ValueError` are reported."""
    for line in lines:
        try:
            yield read(read_record(line))
        except ValueError as error:
            report(Problem(line.place, str(error)))
