"""Imports the rows of a CSV file as turns, then asks a question about them.

    python examples/batch_import.py examples/notes.csv --tenant crm

A row is stored once, under its id: a repeat of the command changes nothing, so an interrupted
import is simply run again. Rows are streamed; a file of any size needs no more memory than this.
`trivium-import csv` does the same for exports of other memories.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from trivium import Client, Segment


def rows(file: Path) -> Iterator[Segment]:
    """The turns of a file, one a row."""
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            yield Segment(
                id=row["id"],
                text=row["text"],
                speaker=row["speaker"],
                session=row["session"],
                event_time=datetime.fromisoformat(row["event_time"]),
            )


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Imports a CSV file.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--address", default="127.0.0.1:9000")
    parser.add_argument("--tenant", default="crm")
    parser.add_argument("--question", default="When does the pilot of Acme start?")
    given = parser.parse_args()
    with Client(given.address, tenant=given.tenant) as memory:
        stored = memory.ingest_stream(rows(given.file))
        print(f"stored: {stored.created_count} new, {stored.unchanged_count} as before")
        found = memory.retrieve(
            given.question, consistency_token=stored.consistency_token, timeout=10, limit=3
        )
        for hit in found.hits:
            print(f"{hit.rank} {hit.score:.3f} {hit.text}")


if __name__ == "__main__":
    main()
