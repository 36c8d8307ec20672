"""Files of no memory: Markdown and plain text by paragraphs, and CSV by rows."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from trivium.files.reading import Found, stable_id
from trivium.files.records import STDIN, Line, Place, Problem, Record, Report, read_lines
from trivium.values import Item
from trivium_importers.qdrant import TEXT_KEYS, point
from trivium_importers.translation import Exported, Translation

ROW_TEXT_KEYS = (*TEXT_KEYS, "message")
_HEADING = re.compile(r"(?P<level>#{1,6})\s+(?P<name>.*?)\s*#*")
_FENCES = ("```", "~~~")


def items(
    records: Iterable[Record], translation: Translation, text_key: str = ""
) -> Iterator[Found[Item]]:
    """Paragraphs and rows become segments; a row is read as a payload of Qdrant is."""

    def row(exported: Exported) -> Iterator[Found[Item]]:
        return point(exported, (text_key,) if text_key else ROW_TEXT_KEYS)

    for record in records:
        payload = {name: value for name, value in record.fields.items() if name != "id"}
        id_ = record.fields.get("id") or stable_id("row", repr(sorted(payload.items())))
        yield from translation.items(
            "row", Record(record.place, {"id": id_, "payload": payload}), row
        )


def read_text(paths: Sequence[str], report: Report) -> Iterator[Record]:
    """The paragraphs of text files; the title is the name of the file."""
    for path in paths:
        title = "" if path == STDIN else Path(path).stem
        for place, text in _paragraphs(_numbered(path, report)):
            yield _note(path, place, title, text)


def read_markdown(paths: Sequence[str], report: Report) -> Iterator[Record]:
    """The paragraphs of Markdown files; the title is the path of headings above them."""
    for path in paths:
        headings: list[tuple[int, str]] = []
        for place, text in _paragraphs(_numbered(path, report), headings=True):
            if found := _HEADING.fullmatch(text):
                level = len(found["level"])
                headings = [each for each in headings if each[0] < level]
                headings.append((level, found["name"]))
            else:
                yield _note(path, place, " > ".join(name for _, name in headings), text)


def read_csv(paths: Sequence[str], report: Report) -> Iterator[Record]:
    """The rows of CSV files, whose first line has the names of the columns."""
    for path in paths:
        text = "\n".join(line.text for line in _numbered(path, report))
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        try:
            for row in reader:
                place = Place(path, reader.line_num)
                if None in row:
                    report(Problem(place, "has more cells than the first line"))
                else:
                    yield Record(place, {key.strip(): value for key, value in row.items()})
        except csv.Error as error:
            report(Problem(Place(path, reader.line_num), f"is not CSV: {error}"))


def _note(path: str, place: Place, title: str, text: str) -> Record:
    id_ = stable_id("note", Path(path).name, title, text)
    return Record(place, {"id": id_, "text": text, "title": title, "kind": "note"})


def _numbered(path: str, report: Report) -> list[Line]:
    """All lines of a file, blank ones too."""
    lines: list[Line] = []
    if path != STDIN and Path(path).is_dir():
        report(Problem(Place(path, 1), "is a folder; name its files"))
        return lines
    for line in read_lines(path, report):
        while len(lines) + 1 < line.place.line:
            lines.append(Line(Place(path, len(lines) + 1), ""))
        lines.append(line)
    return lines


def _paragraphs(lines: Iterable[Line], *, headings: bool = False) -> Iterator[tuple[Place, str]]:
    """Lines up to a blank one, or a heading; a block of code is not parted."""
    place, parts, in_code = None, list[str](), False
    for line in lines:
        in_code ^= headings and line.text.startswith(_FENCES)
        is_heading = headings and not in_code and _HEADING.fullmatch(line.text) is not None
        if parts and (is_heading or (not line.text and not in_code)):
            yield place or line.place, "\n".join(parts)
            parts = []
        if is_heading:
            yield line.place, line.text
        elif line.text or parts:
            place = line.place if not parts else place
            parts.append(line.text)
    if parts and place:
        yield place, "\n".join(parts).rstrip()
