"""`docs/rpcs.md` from the commented protos."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from serving.rpc.registration import METHODS
from tests.support.markdown import cell, filled, table
from tests.support.openapi import PACKAGE, described_comments
from trivium.v1 import error_reason_pb2

PAGE = Path(__file__).parents[2] / "docs/rpcs.md"
INTRODUCTION = """\
Every RPC of `trivium.v1`, and the messages of each. A field is zero or empty by default, which
means what its comment says; one marked *optional* tells unset from zero. Errors are
`google.rpc.Status` with an `ErrorInfo`, whose reason is an [ErrorReason](#errorreason). The protos
are in `protos/trivium/v1`; over HTTP the same messages are JSON ([http.md](http.md#routes)).
"""
KINDS = {
    FieldDescriptor.CPPTYPE_STRING: "string",
    FieldDescriptor.CPPTYPE_BOOL: "bool",
    FieldDescriptor.CPPTYPE_INT32: "int32",
    FieldDescriptor.CPPTYPE_INT64: "int64",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
}
Types = dict[str, Descriptor | EnumDescriptor]


def text() -> str:
    """The whole page."""
    types: Types = {}
    for method in METHODS.values():
        _collect(method.input_type, types)
        _collect(method.output_type, types)
    reasons = error_reason_pb2.DESCRIPTOR.enum_types_by_name["ErrorReason"]
    types[reasons.full_name] = reasons
    written = "<!-- Written by `make docs` from protos/trivium/v1: edit these files. -->\n"
    parts = [
        f"# RPCs\n\n{written}\n{filled(INTRODUCTION)}",
        *_services(),
        "## Messages\n",
    ]
    ordered = sorted(types.values(), key=_name)
    parts += [_message(each) for each in ordered if isinstance(each, Descriptor)]
    parts.append("## Enumerations\n")
    parts += [_enum(each) for each in ordered if isinstance(each, EnumDescriptor)]
    return "\n".join(parts)


def _collect(descriptor: Descriptor, types: Types) -> None:
    """Adds a message, and all messages and enumerations that it needs."""
    if not descriptor.full_name.startswith(PACKAGE) or descriptor.full_name in types:
        return
    if not descriptor.GetOptions().map_entry:
        types[descriptor.full_name] = descriptor
    for field in descriptor.fields:
        if field.enum_type is not None:
            types[field.enum_type.full_name] = field.enum_type
        elif field.message_type is not None:
            _collect(field.message_type, types)


def _name(descriptor: Descriptor | EnumDescriptor) -> str:
    return descriptor.full_name.removeprefix(PACKAGE)


def _link(descriptor: Descriptor | EnumDescriptor) -> str:
    name = _name(descriptor)
    return f"[{name}](#{name.lower()})" if "." not in name else f"`{descriptor.name}`"


def _services() -> Iterator[str]:
    of = ""
    for name, method in sorted(METHODS.items(), key=lambda each: each[1].full_name):
        if of != method.containing_service.name:
            of = method.containing_service.name
            yield f"## {of}\n"
        takes, gives = _link(method.input_type), _link(method.output_type)
        takes = f"a stream of {takes}" if method.client_streaming else takes
        gives = f"a stream of {gives}" if method.server_streaming else gives
        about = _prose(described_comments()[method.full_name])
        yield f"### {name}\n\n{about}\n* Takes {takes}.\n* Answers with {gives}.\n"


def _message(descriptor: Descriptor) -> str:
    rows = (
        (f"`{field.name}`", _type(field), cell(described_comments()[field.full_name]))
        for field in descriptor.fields
    )
    return _head(descriptor) + table(("field", "type", "what"), rows)


def _enum(descriptor: EnumDescriptor) -> str:
    rows = (
        (f"`{value.name}`", str(value.number), cell(described_comments()[f"{PACKAGE}{value.name}"]))
        for value in descriptor.values
    )
    return _head(descriptor) + table(("value", "number", "what"), rows)


def _head(descriptor: Descriptor | EnumDescriptor) -> str:
    return f"### {_name(descriptor)}\n\n{_prose(described_comments()[descriptor.full_name])}"


def _type(field: FieldDescriptor) -> str:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return f"map of string to {_one(message.fields_by_name['value'])}"
    if field.is_repeated:
        return f"repeated {_one(field)}"
    explicit = field.message_type is None and field.has_presence and not field.containing_oneof
    oneof = field.containing_oneof
    is_optional = explicit or (oneof is not None and oneof.name == f"_{field.name}")
    return f"optional {_one(field)}" if is_optional else _one(field)


def _one(field: FieldDescriptor) -> str:
    if field.enum_type is not None:
        return _link(field.enum_type)
    if field.message_type is None:
        return KINDS.get(field.cpp_type, "bytes")
    if field.message_type.full_name.startswith(PACKAGE):
        return _link(field.message_type)
    return field.message_type.name


def _prose(comment: str) -> str:
    return filled(comment.replace("\n", "\n\n"))
