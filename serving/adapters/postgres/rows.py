"""Between the tables' rows and the domain's records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from serving.domain.records import Fact, Segment
from serving.domain.validity import Closing

SEGMENT_COLUMNS = (
    "id, text, title, kind, speaker, session, event_time, importance, sensitive, labels, "
    "entities, entity, created_at, updated_at"
)
FACT_COLUMNS = (
    "id, subject, relation, object, sentence, valid_from, valid_to, recorded_at, retracted_at, "
    "evidence, weight, sensitive, created_at, updated_at, closes, single_valued, "
    "closed_by, closed_at, closing_recorded_at, closing_retracted_at"
)

FACT_IS_HIDDEN = """
    (fact.sensitive OR EXISTS (
      SELECT FROM segment AS resting_on
       WHERE resting_on.tenant_id = fact.tenant_id -- tenant filter
         AND resting_on.id = ANY (fact.evidence) AND resting_on.sensitive))
"""
"""A fact is treated as sensitive if it, or any of its evidence, is."""


def to_segment(row: Sequence[Any]) -> Segment:
    """Reads a row of `SEGMENT_COLUMNS`."""
    return Segment(
        id=row[0],
        text=row[1],
        title=row[2],
        kind=row[3],
        speaker=row[4],
        session=row[5],
        event_time=row[6],
        importance=row[7],
        sensitive=row[8],
        labels=row[9],
        entities=tuple(row[10]),
        entity=row[11],
        created_at=row[12],
        updated_at=row[13],
    )


def to_fact(row: Sequence[Any]) -> Fact:
    """Reads a row of `FACT_COLUMNS`."""
    return Fact(
        id=row[0],
        subject=row[1],
        relation=row[2],
        object=row[3],
        sentence=row[4],
        valid_from=row[5],
        valid_to=row[6],
        recorded_at=row[7],
        retracted_at=row[8],
        evidence=tuple(row[9]),
        weight=row[10],
        sensitive=row[11],
        created_at=row[12],
        updated_at=row[13],
        closes=tuple(row[14]),
        single_valued=row[15],
        closings=to_closings(row[16:20]),
    )


def to_closings(columns: Sequence[Sequence[Any]]) -> tuple[Closing, ...]:
    """Reads the four last of `FACT_COLUMNS`."""
    return tuple(map(Closing, *columns))


def columns_of(table: str, columns: str) -> str:
    """Qualifies a list of columns with their table's name."""
    return ", ".join(f"{table}.{column.strip()}" for column in columns.split(","))


def array_literal(values: Sequence[str]) -> str:
    """Writes texts as PostgreSQL writes an array.

    `unnest` flattens arrays of arrays, so an array per row travels as text.
    """
    quoted = (value.replace("\\", r"\\").replace('"', r"\"") for value in values)
    return "{" + ",".join(f'"{value}"' for value in quoted) + "}"
