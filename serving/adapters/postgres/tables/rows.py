"""Conversion between table rows and domain records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg.types.multirange import Multirange
from psycopg.types.range import Range

from serving.adapters.postgres.tables.filters import EVIDENCE_EXPIRES_AT
from serving.domain.items.period import Period
from serving.domain.items.records import Fact, Item, ItemKind, Segment
from serving.domain.items.validity import Closing

_SEGMENT_FIELDS = (
    *("id", "text", "title", "kind", "speaker", "session", "event_time", "importance"),
    *("sensitive", "labels", "entities", "entity", "keywords", "created_at", "updated_at"),
    *("mentions", "expires_at", "extracted", "version"),
)
_FACT_FIELDS = (
    *("id", "subject", "relation", "object", "sentence", "valid_from", "valid_to"),
    *("recorded_at", "retracted_at", "evidence", "weight", "sensitive", "created_at"),
    *("updated_at", "closes", "single_valued", "expires_at", "evidence_expires_at", "version"),
)
_COMPUTED = {"evidence_expires_at": EVIDENCE_EXPIRES_AT}
CLOSING_COLUMNS = ("closed_by", "closed_at", "closing_recorded_at", "closing_retracted_at")

COLUMNS = {
    ItemKind.SEGMENT: ", ".join(f"segment.{name}" for name in _SEGMENT_FIELDS),
    ItemKind.FACT: ", ".join(
        _COMPUTED.get(name, f"fact.{name}") for name in (*_FACT_FIELDS, *CLOSING_COLUMNS)
    ),
}
"""The columns that `TO_ITEM` reads."""


def typed_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """The type of each column, of the names that each type has, separated by spaces."""
    return {name: type_ for type_, names in columns.items() for name in names.split()}


def to_segment(row: Sequence[Any]) -> Segment:
    """Converts a row of a segment's `COLUMNS`."""
    values = dict(zip(_SEGMENT_FIELDS, row, strict=True))
    values["entities"] = tuple(values["entities"])
    values["keywords"] = tuple(values["keywords"])
    values["mentions"] = tuple(Period(each.lower, each.upper) for each in values["mentions"] or ())
    return Segment(**values)


def to_multirange(periods: Sequence[Period]) -> Multirange[datetime] | None:
    """The value of the column `mentions`; NULL if there are none."""
    return Multirange(Range(each.begins, each.ends) for each in periods) if periods else None


def to_fact(row: Sequence[Any]) -> Fact:
    """Converts a row of a fact's `COLUMNS`."""
    fields, closings = row[: len(_FACT_FIELDS)], row[len(_FACT_FIELDS) :]
    values = dict(zip(_FACT_FIELDS, fields, strict=True))
    values["evidence"] = tuple(values["evidence"])
    values["closes"] = tuple(values["closes"])
    return Fact(**values, closings=to_closings(closings))


TO_ITEM: dict[ItemKind, Callable[[Sequence[Any]], Item]] = {
    ItemKind.SEGMENT: to_segment,
    ItemKind.FACT: to_fact,
}


def to_closings(columns: Sequence[Sequence[Any]]) -> tuple[Closing, ...]:
    """Converts the values of `CLOSING_COLUMNS`: four parallel arrays."""
    return tuple(map(Closing, *columns))


def array_literal(values: Sequence[str]) -> str:
    """Formats texts as a PostgreSQL array literal.

    `unnest` flattens nested arrays, so an array per row is sent as text.
    """
    quoted = (value.replace("\\", r"\\").replace('"', r"\"") for value in values)
    return "{" + ",".join(f'"{value}"' for value in quoted) + "}"
