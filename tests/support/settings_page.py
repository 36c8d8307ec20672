"""`docs/configuration.md` from the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from serving.config.settings import Settings
from tests.support.markdown import filled

PAGE = Path(__file__).parents[2] / "docs/configuration.md"

INTRODUCTION = """\
Each setting is an environment variable, or a line of the YAML file that `TRIVIUM_CONFIG` names:
`TRIVIUM_POSTGRES__DSN` is `dsn` in the section `postgres` of the file. The environment overrides
the file. In a variable, lists and mappings are JSON. A duration is in ISO 8601 (`PT10M`).
`trivium-server check-config` prints the effective settings without secrets and rejects unknown
ones; `trivium-server doctor` says what this machine has for them.
"""

KINDS = {
    "array": "list",
    "boolean": "`true` or `false`",
    "object": "mapping",
    "password": "secret",
    "string": "text",
}

BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}

Schema = Mapping[str, Any]

SCHEMA: Schema = Settings.model_json_schema()


def text() -> str:
    """The whole page."""
    written = "<!-- Written by `make docs` from serving/config/settings.py: edit that file. -->\n"
    head = f"# Configuration\n\n{written}\n{filled(INTRODUCTION)}\n"
    return head + "\n".join(_section(SCHEMA, ()))


def _section(section: Schema, path: tuple[str, ...]) -> Iterator[str]:
    """The settings of a section, then those of the sections in it."""
    if path:
        yield f"## {'.'.join(path)}\n\n{filled(section['description'])}"
    inner = {name: _inner(field) for name, field in section["properties"].items()}
    required = section.get("required", ())
    yield "".join(
        _entry((*path, name), field, required=name in required)
        for name, field in section["properties"].items()
        if inner[name] is None
    )
    for name, below in inner.items():
        if below is not None:
            yield from _section(below, (*path, name))


def _inner(field: Schema) -> Schema | None:
    """The section that a field holds; None if it is a value."""
    for each in (field, *field.get("anyOf", ())):
        resolved = _resolved(each)
        if "properties" in resolved:
            return resolved
    return None


def _resolved(field: Schema) -> Schema:
    """A field, or what it refers to."""
    name = str(field.get("$ref", "")).rpartition("/")[2]
    return SCHEMA["$defs"][name] if name else field


def _entry(path: tuple[str, ...], field: Schema, *, required: bool) -> str:
    about = [_kind(field)]
    default = field.get("default")
    if required:
        about.append("required")
    elif default not in (None, "", {}):
        about.append(f"default `{str(default).lower() if isinstance(default, bool) else default}`")
    variable = "TRIVIUM_" + "__".join(path).upper()
    line = f"* `{variable}` ({', '.join(about)}): {field['description']}"
    return filled(line, indent="  ")


def _kind(field: Schema) -> str:
    """The type of a field in words, with its bounds."""
    field = _resolved(field)
    if "anyOf" in field:
        return _either([_kind(each) for each in field["anyOf"] if each.get("type") != "null"])
    if "enum" in field or "const" in field:
        return _either([f"`{each}`" for each in field.get("enum", [field.get("const")])])
    name = str(field.get("format", field["type"]))
    bounds = [f"{words} {field[bound]:g}" for bound, words in BOUNDS.items() if bound in field]
    return ", ".join([KINDS.get(name, name), *bounds])


def _either(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)
