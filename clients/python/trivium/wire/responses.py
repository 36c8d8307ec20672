"""Reads response messages as values, for both clients.

A value has the fields of its message, under the same names. `read` converts each as its type in
the value says; `_OWN` has the fields of which the message has another form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache, partial
from operator import attrgetter, methodcaller
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from trivium import values
from trivium.errors import TriviumError, error_of
from trivium.tuning import Profile
from trivium.v1 import filter_pb2, item_pb2, retrieval_service_pb2

_Value = TypeVar("_Value")
_Slot = Callable[[Any, Any], None]
_Conversion = Callable[[Any], Any]


def read(kind: type[_Value], message: Message) -> _Value:
    """Reads a message as a value of this class."""
    # Its constructor, with all fields as keywords, takes twice as long.
    value = object.__new__(kind)
    for put, get in _fields(kind, type(message)):  # type: ignore[arg-type]  # classes have hashes
        put(value, get(message))
    return value


def read_batch(
    response: retrieval_service_pb2.RetrieveBatchResponse,
) -> tuple[values.Retrieval | TriviumError, ...]:
    """Reads the result of each query of a batch."""
    return tuple(
        error_of(each.error.code, each.error.message)
        if each.WhichOneof("result") == "error"
        else read(values.Retrieval, each.response)
        for each in response.results
    )


@cache
def _fields(kind: Any, message: type[Message]) -> Sequence[tuple[_Slot, _Conversion]]:
    """Writers of the fields of a value, each with the reader of the message that it needs."""
    types = get_type_hints(kind)
    described = message.DESCRIPTOR.fields_by_name
    return [
        (
            getattr(kind, name).__set__,
            _OWN.get((kind, name)) or _getter(types[name], described[name]),
        )
        for name in (each.name for each in fields(kind))
    ]


def _getter(kind: Any, field: Any) -> _Conversion:
    name, get = field.name, attrgetter(field.name)
    optional = NoneType in get_args(kind)
    convert = _conversion(get_args(kind)[0] if optional else kind, field)
    if optional:
        return lambda message: convert(get(message)) if message.HasField(name) else None
    return get if convert is _unchanged else lambda message: convert(get(message))


def _conversion(kind: Any, field: Any) -> _Conversion:
    """The conversion of a field of a message to a type."""
    origin = get_origin(kind)
    if origin is None:
        return _conversion_of_one(kind, field)
    if issubclass(origin, Mapping):
        return dict
    collection = frozenset if origin is frozenset else tuple
    convert = _conversion_of_one(get_args(kind)[0], field)
    return (
        collection if convert is _unchanged else lambda several: collection(map(convert, several))
    )


def _conversion_of_one(kind: Any, field: Any) -> _Conversion:
    if kind is datetime:
        return methodcaller("ToDatetime", tzinfo=UTC)
    if kind is timedelta:
        return methodcaller("ToTimedelta")
    if kind is values.ItemRef:
        return _item_ref
    if is_dataclass(kind):
        return partial(read, cast(type, kind))
    return _members(kind, field) if issubclass(kind, StrEnum) else _unchanged


def _unchanged(value: Any) -> Any:
    return value


def _members(kind: type[StrEnum], field: Any) -> _Conversion:
    """The members of an enum by their numbers; a number of a later service is `UNKNOWN`."""
    prefix = field.enum_type.values_by_number[0].name.removesuffix("UNSPECIFIED")
    members = {
        number: kind[name]
        for number, each in field.enum_type.values_by_number.items()
        if (name := each.name.removeprefix(prefix)) in kind.__members__
    }
    if kind is values.Stage:
        members[0] = values.Stage.NONE  # the profile does not rerank
    unknown = kind["UNKNOWN"]
    return lambda number: members.get(number, unknown)


def _item_ref(message: item_pb2.ItemRef) -> values.ItemRef:
    if message.WhichOneof("item") == "fact_id":
        return values.ItemRef(values.ItemKind.FACT, message.fact_id)
    return values.ItemRef(values.ItemKind.SEGMENT, message.segment_id)


def _item(message: Any) -> values.Item:
    if message.WhichOneof("item") == "fact":
        return read(values.Fact, message.fact)
    return read(values.Segment, message.segment)


def _labels(message: filter_pb2.Filter) -> dict[str, values.LabelCondition]:
    return {label.key: _condition(label) for label in message.labels}


def _condition(label: filter_pb2.LabelFilter) -> values.LabelCondition:
    if label.HasField("number"):
        return read(values.NumberRange, label.number)
    if label.HasField("date"):
        return read(values.TimeRange, label.date)
    return label.exists if label.HasField("exists") else tuple(label.values)


def _with_whole_numbers(value: Any) -> Any:
    """Restores the integers in the data of a Struct, which has only floats."""
    if isinstance(value, dict):
        return {name: _with_whole_numbers(of) for name, of in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


_OWN: Mapping[tuple[type, str], _Conversion] = {
    (values.Hit, "item"): _item,
    (values.PatchResult, "item"): lambda response: (
        _item(response) if response.WhichOneof("item") else None
    ),
    (values.Filter, "labels"): _labels,
    (values.ForgetResult, "segments_by_speaker"): lambda response: {
        each.speaker: each.segment_count for each in response.speakers
    },
    (values.ItemOutcome, "violations"): lambda outcome: tuple(
        (each.field, each.description) for each in outcome.violations
    ),
    (values.StreamedRetrieval, "retrieval"): lambda response: read(
        values.Retrieval, response.retrieved
    ),
    (values.StreamedRetrieval, "transcript_number"): attrgetter("request_number"),
    (Profile, "definition"): lambda profile: _with_whole_numbers(MessageToDict(profile.definition)),
    (Profile, "notes"): lambda profile: {note.leg: note.text for note in profile.notes},
}
"""The fields that are read from the whole message, by the class of the value and their name."""
