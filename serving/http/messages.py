"""Reads requests from JSON, from the binary format and from the query of a URL; writes answers.

What cannot be read becomes `Malformed`, as bytes that are no message do in gRPC, so that the
boundary authenticates and logs its caller before it is rejected.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.timestamp_pb2 import Timestamp

from serving.http.faults import (
    UNREADABLE,
    each_name_once,
    fault_of,
    fault_of_json,
    fault_of_names,
)
from serving.rpc.registration import Malformed

Request = TypeVar("Request", bound=Message)

_TIME = Timestamp.DESCRIPTOR.full_name
_UNKNOWN = "is no field that the query of a URL can set"
_TWICE = "is set twice in the URL"


def from_json(
    body: bytes, message_class: type[Request], *, strict: bool = True
) -> Request | Malformed:
    """Reads ProtoJSON, with names in lowerCamelCase or as in the protos; no bytes are no fields.

    If `strict`, unknown fields are errors. Connect ignores them, as newer clients may send some.
    """
    message, of = message_class(), message_class.DESCRIPTOR
    if not body:
        return message
    if not body.lstrip().startswith(b"{"):
        return Malformed("is no object of JSON")
    names: set[str] = set()

    def fields(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        names.update(name for name, _ in pairs)
        return each_name_once(pairs)

    try:
        value = json.loads(body.decode(), object_pairs_hook=fields)
        json_format.ParseDict(value, message, ignore_unknown_fields=not strict)
        fault = fault_of_names(value, of, names)
    except UNREADABLE:
        fault = fault_of_json(body, of, strict=strict)
    return Malformed(f"is not JSON of {of.name}: {fault}") if fault else message


def from_value(value: dict[str, Any], message_class: type[Request]) -> Request | Malformed:
    """Reads what JSON was read into; unknown fields are errors."""
    try:
        return json_format.ParseDict(value, message_class())
    except UNREADABLE:
        of = message_class.DESCRIPTOR
        return Malformed(f"is no {of.name}: {fault_of(value, of)}")


def from_binary(body: bytes, message_class: type[Request]) -> Request | Malformed:
    """Reads the binary format of protobuf."""
    try:
        return message_class.FromString(body)
    except DecodeError:
        return Malformed()


def url_pairs(query: bytes) -> list[tuple[str, str]] | Malformed:
    """Reads the names and values in the query of a URL, which may have UTF-8 unescaped too."""
    try:
        return parse_qsl(query.decode(), keep_blank_values=True, errors="strict")
    except ValueError:
        return Malformed("has text in its URL that is not UTF-8")


def from_query(query: bytes, message_class: type[Request]) -> Request | Malformed:
    """Reads the query of a URL: a name is the path of a field, such as `filter.speakers`.

    A repeated field has one pair for each value. A time may have its `+` unescaped.
    """
    pairs = url_pairs(query)
    if isinstance(pairs, Malformed):
        return pairs
    tree: dict[str, Any] = {}
    descriptor: Any = message_class.DESCRIPTOR
    for path, value in pairs:
        fault = _put(tree, descriptor, path.split("."), value)
        if fault:
            return Malformed(f"{path!r} {fault}")
    return from_value(tree, message_class)


def to_json(message: Message) -> bytes:
    """Writes ProtoJSON: lowerCamelCase, without empty fields."""
    return encoded(json_format.MessageToDict(message))


def to_plain_json(message: Message) -> bytes:
    """Writes JSON for people: names as in the protos, and empty fields too.

    Fields that distinguish unset from empty are left out when unset.
    """
    value = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return encoded(value)


def encoded(value: object) -> bytes:
    """JSON in UTF-8, without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _put(tree: dict[str, Any], descriptor: Descriptor, path: list[str], value: str) -> str:
    """Puts a value at the path of a field; returns why it cannot, or nothing."""
    name, *rest = path
    field = descriptor.fields_by_name.get(name)
    if field is None:
        return _UNKNOWN
    if rest:
        if field.message_type is None or field.is_repeated:
            return _UNKNOWN
        inner = tree.setdefault(name, {})
        return _put(inner, field.message_type, rest, value) if isinstance(inner, dict) else _TWICE
    if field.is_repeated:
        tree.setdefault(name, []).append(_scalar(field, value))
    elif name in tree:
        return _TWICE
    else:
        tree[name] = _scalar(field, value)
    return ""


def _scalar(field: FieldDescriptor, value: str) -> object:
    """As JSON has it: numbers and times may be texts there, but not truth values."""
    if field.type == FieldDescriptor.TYPE_BOOL:
        return {"true": True, "false": False}.get(value, value)
    if field.message_type is not None and field.message_type.full_name == _TIME:
        # No time has a blank: it was the sign of a zone, which stands for a blank in a URL.
        return value.replace(" ", "+")
    return value
