"""Writes what a set gave: results and scores, which hold no texts, a summary, and a page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from bench.connections import LIMIT
from bench.quality import stored
from bench.quality.html import page
from bench.quality.outcome import outcome
from bench.quality.session import Measured
from bench.quality.summary import summary
from bench.quality.ways import Way, spelled
from bench.results import Json, Record, append_record

SUMMARY_NAME = "summary.md"
PAGE_NAME = "report.html"
"""Holds texts, so git ignores it."""


def results_folder(out: Path, collection: str, at: datetime) -> Path:
    """Where the results of a set go."""
    return out / f"quality-{collection}-{at:%Y%m%d-%H%M%S}"


def records_of(
    measured: Measured, about: Mapping[str, Json], *, limit: int = LIMIT
) -> list[Record]:
    """A record for each way, the baseline first, whole in itself."""
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
    """What measures a way again, and what it is compared with.

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
