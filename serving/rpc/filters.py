"""Reads the filters of requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from serving.domain.questions.query import NO_FILTER, Exclusion, Filter
from serving.rpc.check import MAX_FILTER_VALUES, MAX_ID_BYTES, Checker
from serving.rpc.items import MAX_ITEMS, MAX_LABEL_KEY_BYTES, MAX_NAME_BYTES
from trivium.v1 import filter_pb2


def to_filter(check: Checker, path: str, message: filter_pb2.Filter) -> Filter:
    """Reads a filter."""

    def values(name: str) -> tuple[str, ...]:
        return check.texts(
            f"{path}.{name}", getattr(message, name), MAX_FILTER_VALUES, MAX_NAME_BYTES
        )

    if not message.ByteSize():
        return NO_FILTER
    return Filter(
        kinds=values("kinds"),
        labels=_labels(check, f"{path}.labels", message.labels),
        speakers=values("speakers"),
        sessions=values("sessions"),
        entities=values("entities"),
        min_importance=check.number(f"{path}.min_importance", message.min_importance, 0, 1),
        event_time=check.time_range(f"{path}.event_time", message.event_time),
        created_at=check.time_range(f"{path}.created_at", message.created_at),
        updated_at=check.time_range(f"{path}.updated_at", message.updated_at),
        none_of=_exclusion(check, f"{path}.none_of", message.none_of),
    )


def _exclusion(check: Checker, path: str, message: filter_pb2.Exclusion) -> Exclusion:
    limits = {"ids": (MAX_ITEMS, MAX_ID_BYTES), "fact_ids": (MAX_ITEMS, MAX_ID_BYTES)}

    def values(name: str) -> tuple[str, ...]:
        most, max_bytes = limits.get(name, (MAX_FILTER_VALUES, MAX_NAME_BYTES))
        return check.texts(f"{path}.{name}", getattr(message, name), most, max_bytes)

    return Exclusion(**{each.name: values(each.name) for each in fields(Exclusion)})


def _labels(
    check: Checker, path: str, messages: Sequence[filter_pb2.LabelFilter]
) -> dict[str, tuple[str, ...]]:
    labels: dict[str, tuple[str, ...]] = {}
    if len(messages) > MAX_FILTER_VALUES:
        check.reject(path, f"must have at most {MAX_FILTER_VALUES} labels, has {len(messages)}")
        return labels
    for place, message in enumerate(messages):
        at = f"{path}[{place}]"
        check.text(f"{at}.key", message.key, MAX_LABEL_KEY_BYTES, required=True)
        if message.key in labels:
            check.reject(f"{at}.key", f"must be named once, {message.key!r} is named again")
        if not message.values:
            check.reject(f"{at}.values", "must not be empty")
        labels[message.key] = check.texts(
            f"{at}.values", message.values, MAX_FILTER_VALUES, MAX_NAME_BYTES, blank=True
        )
    return labels
