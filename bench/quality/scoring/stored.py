"""Stores the scores of each question, for paired comparison with later runs.

A line holds only ids and figures, so it may be published where the set may not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from bench.quality.scoring.evaluate import Answers

FILE_NAME = "queries.jsonl"
_DECIMALS = 6


class StoredError(ValueError):
    """A file of stored scores cannot be read, or does not fit; the message says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The scores of one question under one configuration, as a line has them.

    `way` is the name of the configuration, `scope` the conversation.
    """

    set: str
    way: str
    query: str
    scope: str
    scores: Mapping[str, float]
    ranked: Sequence[str]
    fault: str = ""


def rows_of(collection: str, answers: Answers) -> Iterator[Row]:
    """The rows of one configuration, their scores rounded as they are stored."""
    for each in answers.scored:
        yield Row(
            set=collection,
            way=answers.config.name,
            query=each.query.id,
            scope=each.query.tenant,
            scores={name: round(value, _DECIMALS) for name, value in each.scores.items()},
            ranked=tuple(each.ranked),
            fault=each.fault,
        )


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Writes rows as JSON lines, in an order independent of the measurement."""
    ordered = sorted(rows, key=lambda row: (row.set, row.way, row.query))
    lines = [json.dumps(asdict(row), ensure_ascii=False) for row in ordered]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def read_rows(path: Path) -> list[Row]:
    """Reads what `write_rows` wrote.

    Raises:
        OSError: The file cannot be read.
        StoredError: A line is no row; names it.
    """
    rows = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                rows.append(_ROW.validate_json(line))
            except ValidationError as error:
                why = error.errors()[0]["msg"]
                raise StoredError(f"{path}:{number}: is no stored score: {why}") from None
    if not rows:
        raise StoredError(f"{path}: holds no scores")
    return rows


_ROW = TypeAdapter(Row)
