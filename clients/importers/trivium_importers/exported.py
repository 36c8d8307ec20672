"""Reads the records of an export: a JSON document, or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from trivium.files.records import (
    TOO_DEEP,
    Line,
    Place,
    Problem,
    Record,
    Report,
    read_lines,
    read_record,
    read_records,
    to_record,
)

SUFFIXES = (".json", ".jsonl", ".af")


def read_export(paths: Sequence[str], report: Report) -> Iterator[Record]:
    """Reads the objects of files; those of an array are records of their own.

    Args:
        paths: The files; "-" is standard input, and a folder stands for its files of JSON. Folders
            and links in it are reported and not read.
        report: Called for each line, or element of an array, that cannot be read.

    Raises:
        OSError: A file cannot be read.
    """
    for path in paths:
        for file in _files(path, report):
            yield from _read(list(read_lines(file, report)), report)


def elements(record: Record, name: str, report: Report) -> Iterator[Record]:
    """The objects in the list `name` of a record; empty if it has no such field."""
    listed = record.fields.get(name)
    place = record.place._replace(part=f"{record.place.part}.{name}".lstrip("."))
    if isinstance(listed, list):
        yield from _array(place, listed, report)
    elif listed is not None:
        report(Problem(place, "is not a list"))


def _files(path: str, report: Report) -> Iterator[str]:
    """The file of a path; of a folder, its own files, wherever links in it lead."""
    if not Path(path).is_dir():
        yield path
        return
    for file in sorted(Path(path).iterdir()):
        if file.is_symlink() or file.is_dir():
            report(
                Problem(Place(str(file), 1), "is a link or a folder within a folder, and not read")
            )
        elif file.suffix in SUFFIXES:
            yield str(file)


def _read(lines: Sequence[Line], report: Report) -> Iterator[Record]:
    if not lines:
        return
    try:
        document = json.loads("\n".join(line.text for line in lines))
    except (ValueError, RecursionError) as error:
        yield from _read_lines(lines, error, report)
    else:
        yield from _of_document(lines[0].place, document, report)


def _read_lines(
    lines: Sequence[Line], error: ValueError | RecursionError, report: Report
) -> Iterator[Record]:
    """Reads JSON lines, unless no line is an object: then the file is a document with `error`."""
    if any(map(_is_object, lines)):
        yield from read_records(iter(lines), lambda record: record, report)
    elif isinstance(error, json.JSONDecodeError):
        description = f"is not JSON: {error.msg} at column {error.colno}"
        report(Problem(lines[error.lineno - 1].place, description))
    else:
        report(Problem(lines[0].place, str(error) if isinstance(error, ValueError) else TOO_DEEP))


def _is_object(line: Line) -> bool:
    try:
        read_record(line)
    except ValueError:
        return False
    return True


def _of_document(place: Place, document: object, report: Report) -> Iterator[Record]:
    if isinstance(document, list):
        yield from _array(place, document, report)
    else:
        yield from _record(place, document, report)


def _array(place: Place, values: Sequence[object], report: Report) -> Iterator[Record]:
    for number, value in enumerate(values):
        yield from _record(place._replace(part=f"{place.part}[{number}]"), value, report)


def _record(place: Place, value: object, report: Report) -> Iterator[Record]:
    try:
        yield to_record(place, value)
    except ValueError as error:
        report(Problem(place, str(error)))
