"""The parts of filters: terms of segments, and conditions, which each store translates."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from serving.domain.items.records import Segment
from serving.domain.items.text import name_key

# ---------------------------------------------------------------- terms


OF_SESSION = "c:"
"""The prefix of the term of a session."""

_NUMBER = re.compile(r"[+-]?[0-9]{1,100}(\.[0-9]{1,100})?([eE][+-]?[0-9]{1,2})?")
"""A number as JSON has it, with a plus or zeros before it too, and small enough for a float64."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].+)?", re.ASCII)


def label_term(key: str, value: str) -> str:
    """The filter term of a label.

    Equals signs and backslashes of the key are escaped by a backslash. So the first `=` that is not
    escaped ends the key, and two different labels never have the same term.
    """
    return f"l:{_escaped(key)}={value}"


def segment_terms(segment: Segment) -> frozenset[str]:
    """The filter terms of a segment; all stores use the same vocabulary.

    A term is "<letter>:<value>": k kind, s speaker, c session (conversation), l label
    (`label_term`), n and d a label whose value is a number or a date, e entity. PostgreSQL, the
    vector index and the graph store these terms with each row, so a filter has the same meaning on
    every leg.
    """
    terms = {f"k:{segment.kind}"}
    if segment.speaker:
        terms.add(f"s:{name_key(segment.speaker)}")
    if segment.session:
        terms.add(f"{OF_SESSION}{segment.session}")
    for key, value in segment.labels.items():
        terms.add(label_term(key, value))
        if _NUMBER.fullmatch(value):
            terms.add(_number_term(key, float(value)))
        elif (instant := date_of(value)) is not None:
            terms.add(_date_term(key, instant))
    terms.update(f"e:{name_key(name)}" for name in segment.entities)
    if segment.entity:
        terms.add(f"e:{name_key(segment.entity)}")
    return frozenset(terms)


def date_of(value: str) -> datetime | None:
    """The instant that a label names; None if it names none.

    A date of ISO 8601 ("2026-03-01"), with a time or without; UTC unless it has an offset.
    """
    if not _DATE.fullmatch(value):
        return None
    try:
        instant = datetime.fromisoformat(value)
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _escaped(key: str) -> str:
    return key.replace("\\", "\\\\").replace("=", "\\=")


def _number_term(key: str, number: float, above: int = 0) -> str:
    """The term of a number, which is ordered as the number is; `above` counts floats upwards."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", number + 0.0))  # -0.0 is 0.0
    ordered = bits ^ (1 << 63) if bits < 1 << 63 else ~bits & ((1 << 64) - 1)
    return f"n:{_escaped(key)}={ordered + above:016x}"


def _date_term(key: str, instant: datetime) -> str:
    """The term of an instant, which is ordered as the instant is."""
    return f"d:{_escaped(key)}={instant.astimezone(UTC).isoformat(timespec='microseconds')}"


# ---------------------------------------------------------------- conditions

TimeName: TypeAlias = Literal["event_time", "created_at", "updated_at"]
TIMES: tuple[TimeName, ...] = ("event_time", "created_at", "updated_at")
"""The times of a segment."""


@dataclass(frozen=True, slots=True)
class HasTerm:
    """A segment has one of the terms."""

    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HasTermWithin:
    """A segment has a term from `first` on and before `end`.

    Both begin alike up to the end of a label's key, so that all orders of texts find the same.
    """

    first: str
    end: str


@dataclass(frozen=True, slots=True)
class HasId:
    """A segment has one of the ids."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IsImportant:
    """A segment has at least this importance."""

    least: float


@dataclass(frozen=True, slots=True)
class Within:
    """A time of a segment is not known, or from `start` on and before `end`; None is open."""

    time: TimeName
    start: datetime | None
    end: datetime | None


@dataclass(frozen=True, slots=True)
class AllOf:
    """A segment passes each of the conditions."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A segment passes one of the conditions."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class NoneOf:
    """A segment passes none of the conditions."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = (
    HasTerm | HasTermWithin | HasId | IsImportant | Within | AllOf | AnyOf | NoneOf
)
"""A condition on a segment."""


def passes(segment: Segment, condition: Condition) -> bool:
    """Whether a segment passes; the reference for the translation of each store."""
    if isinstance(condition, AllOf) and not condition.parts:  # most questions; terms take time
        return True
    return _passes(segment, segment_terms(segment), condition)


def _passes(segment: Segment, terms: frozenset[str], condition: Condition) -> bool:
    match condition:
        case HasTerm(wanted):
            return not terms.isdisjoint(wanted)
        case HasTermWithin(first, end):
            return any(first <= term < end for term in terms)
        case HasId(ids):
            return segment.id in ids
        case IsImportant(least):
            return segment.importance >= least
        case Within(time, start, end):
            instant: datetime | None = getattr(segment, time)
            return instant is None or (
                (start is None or start <= instant) and (end is None or instant < end)
            )
        case AllOf(parts):
            return all(_passes(segment, terms, part) for part in parts)
        case AnyOf(parts):
            return any(_passes(segment, terms, part) for part in parts)
        case NoneOf(parts):
            return not any(_passes(segment, terms, part) for part in parts)


# ---------------------------------------------------------------- labels


def has_label(key: str) -> HasTermWithin:
    """Whether a segment has a label, whatever its value."""
    return HasTermWithin(f"l:{_escaped(key)}=", f"l:{_escaped(key)}>")


def number_within(key: str, least: float | None, most: float | None) -> HasTermWithin:
    """Whether a label is a number from `least` to `most`, both included; None is open."""
    begins = f"n:{_escaped(key)}"
    return HasTermWithin(
        f"{begins}=" if least is None else _number_term(key, least),
        f"{begins}>" if most is None else _number_term(key, most, above=1),
    )


def date_within(key: str, start: datetime | None, end: datetime | None) -> HasTermWithin:
    """Whether a label is a date from `start` on and before `end`; None is open."""
    begins = f"d:{_escaped(key)}"
    return HasTermWithin(
        f"{begins}=" if start is None else _date_term(key, start),
        f"{begins}>" if end is None else _date_term(key, end),
    )
