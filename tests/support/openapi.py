"""The file serving/http/static/openapi.json, from the protos with their comments.

Messages are described in the form of the plain routes (`serving/http/plain.py`); the requests of
the designs are those of `serving/http/designs.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    EnumValueDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from serving.http.designs import DESIGNS, DesignRequest
from serving.http.plain import PLAIN_ROUTES, PlainRoute
from serving.rpc.registration import METHODS

ROOT = Path(__file__).parents[2]
PACKAGE = "trivium.v1."
MESSAGES = frozenset(
    each.name for method in METHODS.values() for each in (method.input_type, method.output_type)
)
"""The requests and responses of all RPCs."""
SCHEMAS = "#/components/schemas/"
DURATION = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?s$", "example": "0.1s"}
WELL_KNOWN: dict[str, dict[str, Any]] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Struct": {"type": "object", "additionalProperties": True},
}
SCALARS: dict[int, dict[str, Any]] = {
    FieldDescriptor.CPPTYPE_STRING: {"type": "string"},
    FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.CPPTYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.CPPTYPE_INT64: {"type": "string", "format": "int64"},
    FieldDescriptor.CPPTYPE_DOUBLE: {"type": "number", "format": "double"},
    FieldDescriptor.CPPTYPE_FLOAT: {"type": "number", "format": "float"},
}
ABOUT = """\
Retrieval memory for voice bots and agents. These are the plain routes, and the endpoints of the
published designs; every RPC can also be called by the Connect protocol, as
`POST /trivium.v1.RetrievalService/Retrieve`. Names may also be written in lowerCamelCase in
requests. Integers of 64 bits are texts."""
ERROR = {
    "type": "object",
    "description": "What went wrong, in the form of the Connect protocol.",
    "properties": {
        "code": {"type": "string", "example": "invalid_argument"},
        "message": {"type": "string"},
        "details": {
            "type": "array",
            "description": "Messages of google.rpc; `debug` has their fields.",
            "items": {
                "type": "object",
                "properties": {
                    "type": {"type": "string", "example": "google.rpc.ErrorInfo"},
                    "value": {"type": "string", "contentEncoding": "base64"},
                    "debug": {"type": "object", "additionalProperties": True},
                },
            },
        },
    },
}


def document() -> dict[str, Any]:
    """The description of the plain routes and of the endpoints of the designs."""
    schemas: dict[str, Any] = {"Error": ERROR}
    paths: dict[str, Any] = {}
    for route in PLAIN_ROUTES:
        paths.setdefault(route.path, {})[route.verb.lower()] = _plain(route, schemas)
    for design in DESIGNS:
        paths.setdefault(design.path, {})[design.verb.lower()] = _design(design, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Trivium", "version": "1", "description": ABOUT},
        "paths": paths,
        "security": [{}, {"bearer": []}],
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": dict(sorted(schemas.items())),
        },
    }


def text() -> str:
    """The file, as it is stored."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def _plain(route: PlainRoute, schemas: dict[str, Any]) -> dict[str, Any]:
    method = METHODS[route.rpc]
    about = described_comments()[method.full_name]
    operation = {
        "operationId": route.rpc[0].lower() + route.rpc[1:],
        "summary": about.partition(".")[0] + ".",
        "description": about,
        "tags": ["plain"],
        "responses": _responses(_reference(method.output_type, schemas)),
    }
    if route.verb == "GET":
        return {**operation, "parameters": list(_parameters(method.input_type))}
    request = _reference(method.input_type, schemas)
    return {**operation, "requestBody": _json_body(request)}


def _say_defaults(schema: dict[str, Any]) -> None:
    """Moves defaults to the descriptions: generators of clients require a field that has one."""
    for of_field in schema.get("properties", {}).values():
        default = of_field.pop("default", None)
        if isinstance(default, str | int | float) and default != "":
            said = f"Default: {json.dumps(default)}."
            of_field["description"] = " ".join(filter(None, [of_field.get("description"), said]))


def _design(design: type[DesignRequest], schemas: dict[str, Any]) -> dict[str, Any]:
    schema = design.model_json_schema(ref_template=SCHEMAS + "{model}")
    inner = schema.pop("$defs", {})
    for each in (schema, *inner.values()):
        _say_defaults(each)
    schemas.update(inner)
    name = design.__name__
    in_path = [part[1:-1] for part in design.path.split("/") if part.startswith("{")]
    parameters: list[dict[str, Any]] = [
        {"name": each, "in": "path", "required": True, "schema": {"type": "string"}}
        for each in in_path
    ]
    words = design.path.strip("/").replace("{agent_id}/", "").replace("/", "-").split("-")
    operation: dict[str, Any] = {
        "operationId": words[0] + "".join(word.capitalize() for word in words[1:]),
        "summary": f"{design.about}.",
        "tags": ["designs"],
        "responses": _responses({"type": "object", "additionalProperties": True}),
    }
    if design.verb == "GET":
        required = schema.get("required", [])
        parameters += [
            {"name": each, "in": "query", "required": each in required, "schema": of}
            for each, of in schema["properties"].items()
        ]
    else:
        schemas[name] = schema
        operation["requestBody"] = _json_body({"$ref": SCHEMAS + name})
    return {**operation, "parameters": parameters}


def _json_body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _responses(schema: dict[str, Any]) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": SCHEMAS + "Error"}}}
    return {
        "200": {"description": "The answer.", "content": {"application/json": {"schema": schema}}},
        "default": {"description": "An error.", "content": error},
    }


def _reference(descriptor: Descriptor, schemas: dict[str, Any]) -> dict[str, Any]:
    """A reference to the schema of a message, which is added with all that it needs."""
    name = descriptor.full_name.removeprefix(PACKAGE)
    if name not in schemas:
        schemas[name] = {}  # before its fields, which may refer to it
        schemas[name] = {
            "type": "object",
            "description": described_comments()[descriptor.full_name],
            "properties": {
                field.name: {
                    **_schema(field, schemas),
                    "description": described_comments()[field.full_name],
                }
                for field in descriptor.fields
            },
        }
    return {"$ref": SCHEMAS + name}


def _schema(field: FieldDescriptor, schemas: dict[str, Any]) -> dict[str, Any]:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        of_value = message.fields_by_name["value"]
        return {"type": "object", "additionalProperties": _one(of_value, schemas)}
    one = _one(field, schemas)
    return {"type": "array", "items": one} if field.is_repeated else one


def _one(field: FieldDescriptor, schemas: dict[str, Any]) -> dict[str, Any]:
    if field.enum_type is not None:
        return _enum(field.enum_type, schemas)
    if field.message_type is None:
        return SCALARS[field.cpp_type]
    known = WELL_KNOWN.get(field.message_type.full_name)
    return known or _reference(field.message_type, schemas)


def _enum(descriptor: EnumDescriptor, schemas: dict[str, Any]) -> dict[str, Any]:
    name = descriptor.full_name.removeprefix(PACKAGE)
    values = [value.name for value in descriptor.values]
    about = [f"* `{each}`: {described_comments()[f'{PACKAGE}{each}']}" for each in values]
    schemas[name] = {
        "type": "string",
        "enum": values,
        "description": "\n".join([described_comments()[descriptor.full_name], "", *about]),
    }
    return {"$ref": SCHEMAS + name}


def _parameters(descriptor: Descriptor, prefix: str = "") -> Iterator[dict[str, Any]]:
    """What the query of a URL can set: scalars, times, and lists of scalars."""
    for field in descriptor.fields:
        message = field.message_type
        if message is not None and message.full_name not in WELL_KNOWN:
            if not field.is_repeated:
                yield from _parameters(message, f"{prefix}{field.name}.")
            continue
        yield {
            "name": prefix + field.name,
            "in": "query",
            "description": described_comments()[field.full_name],
            "schema": _schema(field, {}),
        }


@cache
def described_comments() -> dict[str, str]:
    """The comment of each named thing of the protos, by its full name."""
    buf = Path(sys.executable).with_name("buf")
    command = (buf, "build", "--as-file-descriptor-set", "-o", "-")
    described = FileDescriptorSet.FromString(subprocess.check_output(command, cwd=ROOT))
    return {
        _full_name(file, location.path): _paragraphs(location.leading_comments)
        for file in described.file
        for location in file.source_code_info.location
        # A message, an enumeration or a service, or what one consists of.
        if len(location.path) in (2, 4) and location.path[0] in (4, 5, 6)
        if set(location.path[2::2]) <= {2}
    }


def _full_name(file: FileDescriptorProto, path: Sequence[int]) -> str:
    """The full name by the path in the descriptor (descriptor.proto, SourceCodeInfo)."""
    described: Any = file
    names = [file.package]
    for number, index in zip(path[::2], path[1::2], strict=True):
        described = getattr(described, described.DESCRIPTOR.fields_by_number[number].name)[index]
        names.append(described.name)
    if isinstance(described, EnumValueDescriptorProto):
        del names[-2]  # values are in the scope around their enumeration
    return ".".join(names)


def _paragraphs(comment: str) -> str:
    lines = [line.strip() for line in comment.strip().splitlines()]
    return "\n".join(" ".join(part.splitlines()) for part in "\n".join(lines).split("\n\n"))
