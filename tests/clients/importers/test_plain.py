from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.clients.importers.importing import imported
from trivium import Segment

MARKDOWN = """# Trips

We sailed to Goa,
in May.

## Food ##
```
# no heading

fish
```
Nora eats no meat.
# Home
"""
CSV = """id,speaker,message,created_at,trip
t1,Nora,"We sailed,
in May.",2026-05-01T12:00:00Z,goa
,Ann,To whom?,,
t3,Nora
t4,Nora,a,b,c,d
"""


def segments(source: str, file: Path, text: str, text_key: str = "") -> list[Segment]:
    file.write_text(text)
    return [
        each
        for each in imported(source, file, text_key=text_key).items
        if isinstance(each, Segment)
    ]


def test_paragraphs_of_markdown_have_headings_as_title(tmp_path: Path) -> None:
    found = segments("markdown", tmp_path / "notes.md", MARKDOWN)

    assert [(each.title, each.text) for each in found] == [
        ("Trips", "We sailed to Goa,\nin May."),
        ("Trips > Food", "```\n# no heading\n\nfish\n```\nNora eats no meat."),
    ]
    assert found == segments("markdown", tmp_path / "notes.md", MARKDOWN)


def test_paragraphs_of_text_are_notes(tmp_path: Path) -> None:
    found = segments("text", tmp_path / "diary.txt", "\n\nOne.\n# still text\n\n\nTwo.")

    assert [(each.title, each.text, each.kind) for each in found] == [
        ("diary", "One.\n# still text", "note"),
        ("diary", "Two.", "note"),
    ]


def test_rows_of_csv_become_segments(tmp_path: Path) -> None:
    file = tmp_path / "turns.csv"
    file.write_text(CSV)
    found = imported("csv", file)

    first = found.segment("t1")
    assert (first.speaker, first.text, first.labels) == (
        "Nora",
        "We sailed,\nin May.",
        {"trip": "goa"},
    )
    assert first.event_time == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert len(found.items) == 2
    assert len(found.problems) == 2  # a row without a text, and one with too many cells


@pytest.mark.parametrize("column", ["event_time", "timestamp", "created_at"])
def test_time_of_a_row_is_that_of_its_column(tmp_path: Path, column: str) -> None:
    (found,) = segments("csv", tmp_path / "a.csv", f"text,{column}\nHello.,2026-05-01T12:00:00Z\n")

    assert found.event_time == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert found.labels == {}


@pytest.mark.parametrize("source", ["markdown", "text", "csv"])
def test_files_without_content_have_no_items(tmp_path: Path, source: str) -> None:
    assert segments(source, tmp_path / "empty", "\n \n") == []


def test_column_of_the_text_can_be_named(tmp_path: Path) -> None:
    (found,) = segments("csv", tmp_path / "a.csv", "said,text\nHello.,x\n", text_key="said")

    assert found.text == "Hello."
