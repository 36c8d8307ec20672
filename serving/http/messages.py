"""Reads requests from JSON, from the binary format and from the query of a URL; writes answers.

What cannot be read becomes `Malformed`, as bytes that are no message do in gRPC, so that the
boundary authenticates and logs its caller before it is rejected.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from serving.http.faults import UNREADABLE, fault_of, fault_of_json
from serving.rpc.registration import Malformed

Request = TypeVar("Request", bound=Message)


def from_json(
    body: bytes, message_class: type[Request], *, strict: bool = True
) -> Request | Malformed:
    """Reads ProtoJSON, with names in lowerCamelCase or as in the protos; no bytes are no fields.

    If `strict`, unknown fields are errors. Connect ignores them, as newer clients may send some.
    """
    message = message_class()
    if not body:
        return message
    if not body.lstrip().startswith(b"{"):
        return Malformed("is no object of JSON")
    try:
        return json_format.Parse(body, message, ignore_unknown_fields=not strict)
    except UNREADABLE:
        fault = fault_of_json(body, message.DESCRIPTOR, strict=strict)
        return Malformed(f"is not JSON of {message.DESCRIPTOR.name}: {fault}")


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

    A repeated field has one pair for each value.
    """
    pairs = url_pairs(query)
    if isinstance(pairs, Malformed):
        return pairs
    tree: dict[str, Any] = {}
    descriptor: Any = message_class.DESCRIPTOR
    for path, value in pairs:
        if not _put(tree, descriptor, path.split("."), value):
            return Malformed(f"{path!r} is no field that the query of a URL can set")
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


def _put(tree: dict[str, Any], descriptor: Descriptor, path: list[str], value: str) -> bool:
    """Puts a value at the path of a field; whether there is such a field, and it can have one."""
    name, *rest = path
    field = descriptor.fields_by_name.get(name)
    if field is None:
        return False
    if rest:
        if field.message_type is None or field.is_repeated:
            return False
        inner = tree.setdefault(name, {})
        return isinstance(inner, dict) and _put(inner, field.message_type, rest, value)
    if field.is_repeated:
        tree.setdefault(name, []).append(_scalar(field, value))
        return True
    is_first = name not in tree
    tree[name] = _scalar(field, value)
    return is_first


def _scalar(field: FieldDescriptor, value: str) -> object:
    """As JSON has it: numbers and times may be texts there, but not truth values."""
    if field.type == FieldDescriptor.TYPE_BOOL:
        return {"true": True, "false": False}.get(value, value)
    return value
