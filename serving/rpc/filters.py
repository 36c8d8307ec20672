"""Reads the filters of requests."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from serving.domain.items.records import MAX_NAME_BYTES
from serving.domain.questions.query import (
    NO_FILTER,
    Exclusion,
    Filter,
    LabelCondition,
    NumberRange,
)
from serving.rpc.check import MAX_FILTER_VALUES, MAX_ID_BYTES, Checker
from serving.rpc.items import MAX_ITEMS, MAX_LABEL_KEY_BYTES
from trivium.v1 import filter_pb2

MAX_FILTERS_WITHIN = 64
MAX_FILTER_DEPTH = 4

_MAX_NUMBER = sys.float_info.max


def to_filter(check: Checker, path: str, message: filter_pb2.Filter) -> Filter:
    """Reads a filter, once it is known how many others it has within it."""
    if not message.ByteSize() or not _is_bounded(check, path, message):
        return NO_FILTER
    return _filter(check, path, message, is_inner=False)


def filters_within(
    path: str, message: filter_pb2.Filter
) -> Iterator[tuple[str, filter_pb2.Filter, int]]:
    """A filter and those within it, each with its path and depth; the outer ones first."""
    level, depth = [(path, message)], 0
    while level:
        for each in level:
            yield *each, depth
        level = [inner for each in level for inner in _inner(*each)]
        depth += 1


def _inner(path: str, message: filter_pb2.Filter) -> Iterator[tuple[str, filter_pb2.Filter]]:
    lists = {
        "all_of": message.all_of,
        "any_of": message.any_of,
        "none_of.filters": message.none_of.filters,
    }
    for name, messages in lists.items():
        for place, each in enumerate(messages):
            yield f"{path}.{name}[{place}]", each


def _is_bounded(check: Checker, path: str, message: filter_pb2.Filter) -> bool:
    for count, (at, _, depth) in enumerate(filters_within(path, message)):
        if depth > MAX_FILTER_DEPTH:
            check.reject(at, f"is {depth} deep in {path}; filters may be {MAX_FILTER_DEPTH} deep")
            return False
        if count > MAX_FILTERS_WITHIN:
            check.reject(at, f"is one too many; {path} may have {MAX_FILTERS_WITHIN} within it")
            return False
    return True


def _filter(check: Checker, path: str, message: filter_pb2.Filter, *, is_inner: bool) -> Filter:
    def values(name: str) -> tuple[str, ...]:
        return check.texts(
            f"{path}.{name}", getattr(message, name), MAX_FILTER_VALUES, MAX_NAME_BYTES
        )

    filter_ = Filter(
        kinds=values("kinds"),
        labels=_labels(check, f"{path}.labels", message.labels),
        speakers=values("speakers"),
        sessions=values("sessions"),
        entities=values("entities"),
        min_importance=check.number(f"{path}.min_importance", message.min_importance, 0, 1),
        event_time=check.time_range(f"{path}.event_time", message.event_time),
        created_at=check.time_range(f"{path}.created_at", message.created_at),
        updated_at=check.time_range(f"{path}.updated_at", message.updated_at),
        none_of=_exclusion(check, f"{path}.none_of", message.none_of, is_inner=is_inner),
        all_of=_filters(check, f"{path}.all_of", message.all_of),
        any_of=_filters(check, f"{path}.any_of", message.any_of),
    )
    if is_inner and not check.violations and not filter_.restricts:
        check.reject(path, "must restrict something")
    return filter_


def _filters(
    check: Checker, path: str, messages: Sequence[filter_pb2.Filter]
) -> tuple[Filter, ...]:
    return tuple(
        _filter(check, f"{path}[{place}]", message, is_inner=True)
        for place, message in enumerate(messages)
    )


def _exclusion(
    check: Checker, path: str, message: filter_pb2.Exclusion, *, is_inner: bool
) -> Exclusion:
    limits = {"ids": (MAX_ITEMS, MAX_ID_BYTES), "fact_ids": (MAX_ITEMS, MAX_ID_BYTES)}

    def values(name: str) -> tuple[str, ...]:
        most, max_bytes = limits.get(name, (MAX_FILTER_VALUES, MAX_NAME_BYTES))
        return check.texts(f"{path}.{name}", getattr(message, name), most, max_bytes)

    if is_inner and message.fact_ids:
        check.reject(f"{path}.fact_ids", "must be in the outermost filter; others are of segments")
    names = ("kinds", "speakers", "sessions", "ids", "fact_ids")
    given = {name: values(name) for name in names}
    return Exclusion(**given, filters=_filters(check, f"{path}.filters", message.filters))


def _labels(
    check: Checker, path: str, messages: Sequence[filter_pb2.LabelFilter]
) -> dict[str, LabelCondition]:
    labels: dict[str, LabelCondition] = {}
    if len(messages) > MAX_FILTER_VALUES:
        check.reject(path, f"must have at most {MAX_FILTER_VALUES} labels, has {len(messages)}")
        return labels
    for place, message in enumerate(messages):
        at = f"{path}[{place}]"
        check.text(f"{at}.key", message.key, MAX_LABEL_KEY_BYTES, required=True)
        if message.key in labels:
            check.reject(f"{at}.key", f"must be named once, {message.key!r} is named again")
        labels[message.key] = _label(check, at, message)
    return labels


def _label(check: Checker, at: str, message: filter_pb2.LabelFilter) -> LabelCondition:
    given = [name for name in ("number", "date", "exists") if message.HasField(name)]
    if message.values:
        given.append("values")
    if len(given) > 1:
        check.reject(at, f"must have one condition, has {' and '.join(given)}")
    match given:
        case ["number"]:
            return _number_range(check, f"{at}.number", message.number)
        case ["date"]:
            return check.time_range(f"{at}.date", message.date)
        case ["exists"]:
            return message.exists
        case []:
            check.reject(f"{at}.values", "must not be empty, unless number, date or exists is set")
    return check.texts(
        f"{at}.values", message.values, MAX_FILTER_VALUES, MAX_NAME_BYTES, blank=True
    )


def _number_range(check: Checker, path: str, message: filter_pb2.NumberRange) -> NumberRange:
    def bound(name: str) -> float | None:
        if not message.HasField(name):
            return None
        return check.number(f"{path}.{name}", getattr(message, name), -_MAX_NUMBER, _MAX_NUMBER)

    least, most = bound("min"), bound("max")
    if least is not None and most is not None and most < least:
        check.reject(f"{path}.max", "must not be below min")
    return NumberRange(least, most)
