"""Reads exports as `trivium-import` does."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from trivium import Fact, Item, Segment
from trivium_importers.sources import read_exported
from trivium_importers.translation import Mapped, Translation

EXPORTS = Path(__file__).with_name("exports")
EXPECTED = Path(__file__).with_name("expected")


@dataclass(frozen=True)
class Imported:
    """The items of an export and their owners, and the report."""

    items: list[Item]
    scopes: list[str]
    mapped: dict[Mapped, int]
    unmapped: dict[str, int]
    problems: list[str]

    def lines(self) -> list[dict[str, Any]]:
        """The items with their owners, without the fields that they leave as they are; the rest."""
        items = [
            {"scope": scope, type(item).__name__: _fields_of(item)}
            for item, scope in zip(self.items, self.scopes, strict=True)
        ]
        mapped = {f"{kind} as {item}": count for (kind, item), count in self.mapped.items()}
        return [
            *items,
            {"mapped": mapped},
            {"unmapped": self.unmapped},
            {"problems": self.problems},
        ]

    def segment(self, id_: str) -> Segment:
        (found,) = (each for each in self.items if isinstance(each, Segment) and each.id == id_)
        return found

    def fact(self, id_: str) -> Fact:
        (found,) = (each for each in self.items if isinstance(each, Fact) and each.id == id_)
        return found


def imported(source: str, *paths: Path, text_key: str = "") -> Imported:
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


def _fields_of(item: Item) -> dict[str, Any]:
    values = {each.name: getattr(item, each.name) for each in fields(item)}
    defaults = {each.name: each.default for each in fields(item)}
    given = {name: value for name, value in values.items() if value not in (defaults[name], {})}
    written: dict[str, Any] = json.loads(json.dumps(given, default=str))
    return written


def _rest(problem: str) -> str:
    return problem[problem.index(":", problem.rfind("/")) :]


def written(folder: Path, *lines: object, name: str = "export.jsonl") -> Path:
    """A file with lines, which are JSON unless they are text."""
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path = folder / name
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path
