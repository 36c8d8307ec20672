"""`docs/http-routes.md` from openapi.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support import openapi
from tests.support.markdown import cell, filled, table

PAGE = Path(__file__).parents[2] / "docs/http-routes.md"
INTRODUCTION = """\
Every route of `/openapi.json`, which a running service shows with a form for each at `/docs`.
[http.md](http.md) says what holds for all: credentials, errors, and the RPCs by Connect's protocol.
"""
Schema = Mapping[str, Any]


def text() -> str:
    """The whole page."""
    document = openapi.document()
    written = "<!-- Written by `make docs` from the routes: edit serving/http. -->\n"
    parts = [f"# Routes of HTTP\n\n{written}\n{INTRODUCTION}"]
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            parts.append(_route(path, verb.upper(), operation, document["components"]["schemas"]))
    return "\n".join(parts)


def _route(path: str, verb: str, operation: Schema, schemas: Mapping[str, Schema]) -> str:
    lines = [
        f"## {verb} {path}\n\n{filled(operation['summary'])}",
        *_message("Takes", _taken(operation), schemas),
    ]
    parameters = operation.get("parameters", ())
    lines += _table(
        (each["name"], each["schema"], each.get("description", "")) for each in parameters
    )
    given = operation["responses"]["200"]["content"]["application/json"]["schema"]
    lines += _message("Answers with", given, schemas)
    return "\n".join(lines)


def _taken(operation: Schema) -> Schema:
    body: Schema = operation.get("requestBody", {}).get("content", {})
    return dict(body["application/json"]["schema"]) if body else {}


def _message(verb: str, schema: Schema, schemas: Mapping[str, Schema]) -> Iterator[str]:
    """A link to the message of an RPC, or the fields of what is none."""
    name = schema.get("$ref", "").rpartition("/")[2]
    if name in openapi.MESSAGES:
        yield f"{verb} [{name}](rpcs.md#{name.lower()}) as JSON.\n"
    elif name:
        fields = schemas[name].get("properties", {})
        yield f"{verb} JSON:\n"
        yield from _table((each, of, of.get("description", "")) for each, of in fields.items())


def _table(rows: Any) -> Iterator[str]:
    listed = [(f"`{name}`", _type(schema), cell(about)) for name, schema, about in rows]
    if listed:
        yield table(("name", "type", "what"), listed).lstrip()


def _type(schema: Schema) -> str:
    if "anyOf" in schema:
        kinds = [_type(each) for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(kinds)
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    named = schema.get("$ref", "").rpartition("/")[2]
    return named or str(schema.get("type", "any"))
