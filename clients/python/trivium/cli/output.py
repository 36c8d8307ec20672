"""Output to the terminal, as tables or as JSON."""

from __future__ import annotations

import dataclasses
import json
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

_TURNS = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
"""Classes of characters that turn the direction of what follows them."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def stdout() -> Console:
    """The console of results."""
    return Console(highlight=False, soft_wrap=False)


def stderr() -> Console:
    """The console of progress and problems."""
    return Console(stderr=True, highlight=False)


def counter() -> Progress:
    """A display of how many there are so far, of what its tasks are named after."""
    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed}"))
    return Progress(*columns, console=stderr())


def plain(text: str) -> str:
    """The text without what could control the terminal, or change the order of what it shows."""
    return "".join(" " if _controls(each) else each for each in text)


def _controls(character: str) -> bool:
    """Whether a character is a control character, or one of those that turn the direction of text.

    Other format characters stay: they join the parts of emoji and the letters of some scripts.
    """
    turns = unicodedata.bidirectional(character) in _TURNS
    return turns or unicodedata.category(character) == "Cc"


def styled(text: str, style: str = "") -> Text:
    """A cell that shows `text` verbatim, without markup."""
    return Text(plain(text), style=style)


def milliseconds(duration: timedelta) -> str:
    """Formats a duration, such as "12.3 ms"."""
    return f"{duration.total_seconds() * 1000:.1f} ms"


def day(instant: datetime | None) -> str:
    """Formats the date of a time; empty for None."""
    return "" if instant is None else instant.date().isoformat()


def table(*headings: str) -> Table:
    """A table without borders."""
    return Table(*headings, box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Prints a value of the client; times in ISO 8601, durations in seconds.

    Without `indent` it is a line.

    What could control the terminal is escaped, which changes nothing for a reader of JSON.
    """
    text = json.dumps(value, default=_encode, ensure_ascii=False, indent=indent)
    lines = ("".join(map(_escaped, line)) for line in text.split("\n"))
    click.echo("\n".join(lines))


def _escaped(character: str) -> str:
    return f"\\u{ord(character):04x}" if _controls(character) else character


def _encode(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    raise TypeError(f"this is a bug: {type(value)} has no JSON form")


def print_yaml(values: Mapping[str, Any]) -> None:
    """Prints a mapping as YAML, nested fields ordered by name.

    Lines are not wrapped, so that the output can be copied.
    """
    for line in _yaml(values, ""):
        click.echo(line)


def _yaml(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{name}:"
            yield from _yaml(dict(sorted(value.items())), indent + "  ")
        else:
            # JSON is a subset of YAML.
            yield f"{indent}{name}: {json.dumps(value, ensure_ascii=False)}"
