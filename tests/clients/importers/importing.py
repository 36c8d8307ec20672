"""Reads exports as `trivium-import` does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trivium import Fact, Item, Segment
from trivium_importers.sources import read_exported
from trivium_importers.translation import Mapped, Translation

EXPORTS = Path(__file__).with_name("exports")


@dataclass(frozen=True)
class Imported:
    """The items of an export and their owners, and the report."""

    items: list[Item]
    scopes: list[str]
    mapped: dict[Mapped, int]
    unmapped: dict[str, int]
    problems: list[str]

    def segment(self, id_: str) -> Segment:
        (found,) = (each for each in self.items if isinstance(each, Segment) and each.id == id_)
        return found

    def fact(self, id_: str) -> Fact:
        (found,) = (each for each in self.items if isinstance(each, Fact) and each.id == id_)
        return found


def imported(source: str, *paths: Path, text_key: str = "") -> Imported:
    """What an import of files makes of them."""
    translation = Translation()
    names = [str(path) for path in paths]
    found = list(read_exported(source, names, translation, text_key=text_key))
    return Imported(
        items=[each.item for each in found],
        scopes=[each.scope for each in found],
        mapped=dict(translation.mapped),
        unmapped={f"{each.kind}.{each.field}": each.count for each in translation.unmapped},
        problems=[
            f"{Path(each.place.file).name}{_rest(str(each))}" for each in translation.problems
        ],
    )


def _rest(problem: str) -> str:
    """A problem without its file."""
    return problem[problem.index(":", problem.rfind("/")) :]


def written(folder: Path, *lines: object, name: str = "export.jsonl") -> Path:
    """A file with lines, which are JSON unless they are text."""
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path = folder / name
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def at(*numbers: int) -> datetime:
    """A time in UTC."""
    return datetime(*numbers, tzinfo=UTC)  # type: ignore[arg-type, misc]
