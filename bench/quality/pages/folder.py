"""Writes the files of a set: results and scores without texts, a summary, and a report page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.harness.connections import LIMIT
from bench.harness.results import Json, Record, append_record
from bench.quality.pages.html import page
from bench.quality.pages.summary import summary
from bench.quality.scoring import stored
from bench.quality.scoring.outcome import outcome
from bench.quality.session import Measured
from bench.quality.ways import Way, spelled

SUMMARY_NAME = "summary.md"
PAGE_NAME = "report.html"
"""Contains texts of the set, so it must not be published."""


def records_of(
    measured: Measured, about: Mapping[str, Json], *, limit: int = LIMIT
) -> list[Record]:
    """A self-contained record for each way, the baseline first."""
    baseline = measured.baseline
    collection = measured.collection
    given = collection.given_as or (collection.name,)
    return [
        outcome(
            answers,
            baseline,
            limit=limit,
            command=command(given, (answers.way, baseline.way), limit),
        ).as_record(about)
        for answers in measured.answers
    ]


def write(folder: Path, measured: Measured, records: Sequence[Record]) -> None:
    """Writes the files of a set."""
    write_records(folder, records)
    rows = (row for each in measured.answers for row in stored.rows_of(_name(measured), each))
    stored.write_rows(folder / stored.FILE_NAME, rows)
    (folder / PAGE_NAME).write_text(page(measured, records), encoding="utf-8")


def write_records(folder: Path, records: Sequence[Record], more: str = "") -> str:
    """Writes records and their summary to a new folder, and returns the summary.

    Args:
        folder: Where; must not be there yet.
        records: The baseline first.
        more: Markdown that ends the summary.
    """
    folder.mkdir(parents=True)
    for record in records:
        append_record(folder, record)
    text = summary(records) + more
    (folder / SUMMARY_NAME).write_text(text, encoding="utf-8")
    return text


def command(collection: Sequence[str], ways: Sequence[Way], limit: int = LIMIT) -> str:
    """The command that measures a way and its baseline again.

    Args:
        collection: What names the set: its folder's name, and how its questions are changed.
        ways: The way, and the one that it is compared with.
        limit: How many hits were asked for.
    """
    given = [part for way in dict.fromkeys(map(spelled, ways)) for part in ("--way", way)]
    if len(ways) > 1 and ways[0] != ways[1]:
        given += ["--baseline", ways[1].name]
    if limit != LIMIT:
        given += ["--limit", str(limit)]
    return shlex.join(["python", "-m", "bench.quality", *collection, *given])


def _name(measured: Measured) -> str:
    return measured.collection.name
