"""Faults in JSON that cannot be read as a message: the first, with its place."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

UNREADABLE = (json_format.Error, ValueError, TypeError, RecursionError, AttributeError, KeyError)
"""Errors of `json_format` and `json` for JSON of unexpected forms."""

_FORMS = {
    "google.protobuf.Timestamp": 'a time with its zone, such as "2026-05-01T12:00:00Z"',
    "google.protobuf.Duration": 'seconds, such as "0.1s"',
    "google.protobuf.Struct": "an object",
    FieldDescriptor.CPPTYPE_STRING: "a text",
    FieldDescriptor.CPPTYPE_BOOL: "true or false",
    FieldDescriptor.CPPTYPE_DOUBLE: "a number",
    FieldDescriptor.CPPTYPE_FLOAT: "a number",
    FieldDescriptor.CPPTYPE_INT32: "an integer of 32 bits",
    FieldDescriptor.CPPTYPE_UINT32: "an integer of 32 bits that is not negative",
    FieldDescriptor.CPPTYPE_INT64: "an integer",
    FieldDescriptor.CPPTYPE_UINT64: "an integer that is not negative",
}
"""The form of a field, by the name of its message or by its type."""

_PLAIN = 2**31


def fault_of_json(body: bytes, descriptor: Any, *, strict: bool) -> str:
    """The first fault of JSON that is no message of a kind.

    Args:
        body: The JSON.
        descriptor: Of the message.
        strict: Whether an unknown field is a fault.
    """
    try:
        value = json.loads(body, object_pairs_hook=each_name_once)
    except json.JSONDecodeError as error:
        return f"{error.msg} in line {error.lineno}, column {error.colno}"
    except RecursionError:
        return "it is nested too deeply"
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except ValueError as error:
        return f"it {error}"
    return fault_of(value, descriptor, strict=strict)


def fault_of(value: Any, descriptor: Any, *, strict: bool = True) -> str:
    """The first fault of what JSON was read into; as `fault_of_json`."""
    return _first_fault(value, descriptor, strict=strict) or "it is not valid"


def fault_of_names(value: Any, descriptor: Any, names: Collection[str]) -> str:
    """A field given by both of its names, of which `json_format` takes the last; or "".

    `names` are all that the value has, at any depth. Few requests have two names of any field.
    """
    if len({name.replace("_", "").lower() for name in names}) == len(names):
        return ""
    return _first_fault(value, descriptor, strict=False)


def _first_fault(value: Any, descriptor: Any, *, strict: bool) -> str:
    faults = _faults(value, descriptor, "")
    return next((fault for fault, unknown in faults if strict or not unknown), "")


def each_name_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object with its names and values; raises `ValueError` if it has a name twice."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("has a name twice")
    return fields


def _faults(value: Any, descriptor: Any, place: str) -> Iterator[tuple[str, bool]]:
    """Each fault, and whether it is an unknown field."""
    if not isinstance(value, dict):
        yield f"{place} must be an object", False
        return
    taken: dict[str, str] = {}
    for name, given in value.items():
        at = f"{place}.{name}" if place else str(name)
        field = descriptor.fields_by_name.get(name) or descriptor.fields_by_camelcase_name.get(name)
        if field is None:
            yield f"there is no field {at}", True
        elif given is not None:
            # A field has two names, and is the oneof of itself if it is in no other.
            oneof = field.containing_oneof or field
            if (other := taken.setdefault(oneof.name, name)) != name:
                yield f"{at} cannot be set together with {other}", False
            yield from _faults_of_field(given, field, at)


def _faults_of_field(value: Any, field: FieldDescriptor, at: str) -> Iterator[tuple[str, bool]]:
    of = field.message_type
    if of is not None and of.GetOptions().map_entry:
        if not isinstance(value, dict):
            yield f"{at} must be an object", False
            return
        for key, each in value.items():
            yield from _faults_of_one(each, of.fields_by_name["value"], f"{at}.{key}")
    elif field.is_repeated:
        if not isinstance(value, list):
            yield f"{at} must be a list", False
            return
        for place, each in enumerate(value):
            yield from _faults_of_one(each, field, f"{at}[{place}]")
    else:
        yield from _faults_of_one(value, field, at)


def _faults_of_one(value: Any, field: FieldDescriptor, at: str) -> Iterator[tuple[str, bool]]:
    of = field.message_type
    if of is not None and of.full_name not in _FORMS:
        yield from _faults(value, of, at)
        return
    if of is None and _is_plain(value, field):
        return
    alone = {field.name: [value] if field.is_repeated else value}
    container: Any = field.containing_type
    try:
        json_format.ParseDict(alone, GetMessageClass(container)())
    except UNREADABLE:
        yield f"{at} must be {_form(field)}", False


def _is_plain(value: Any, field: FieldDescriptor) -> bool:
    """Whether a scalar is valid at a glance: a request may have thousands."""
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            return (
                field.type == FieldDescriptor.TYPE_STRING and type(value) is str and value.isascii()
            )
        case FieldDescriptor.CPPTYPE_BOOL:
            return type(value) is bool
        case FieldDescriptor.CPPTYPE_ENUM:
            return False
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return type(value) in (int, float) and abs(value) < _PLAIN
        case _:
            return type(value) is int and 0 <= value < _PLAIN


def _form(field: FieldDescriptor) -> str:
    if field.enum_type is not None:
        return f"one of {', '.join(each.name for each in field.enum_type.values)}"
    if field.message_type is not None:
        return _FORMS[field.message_type.full_name]
    return _FORMS[field.cpp_type]
