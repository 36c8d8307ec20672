"""Maps the attributes of records to labels, keywords and lists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from trivium_importers.limits import (
    MAX_LABEL_KEY_BYTES,
    MAX_LABELS,
    MAX_NAME_BYTES,
    MAX_VALUES,
    is_name,
)
from trivium_importers.translation import SENSITIVE, Exported, says_nothing

CREATED, UPDATED = "created_at", "updated_at"


def labels(record: Exported, *names: str, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The values of fields as labels, and those of objects under their own names.

    What is no string, number or boolean, is too long, or is one too many is left out.
    `given` are labels of other origin, which come first; of the others, what makes a segment
    sensitive is never one too many.
    """
    found = dict(given or {})
    attributes = sorted(
        _attributes(record, names), key=lambda each: each[1].casefold() != SENSITIVE
    )
    for path, key, value in attributes:
        text = _text(value)
        fits = is_name(key, MAX_LABEL_KEY_BYTES) and is_name(text, MAX_NAME_BYTES)
        if fits and key not in found and len(found) < MAX_LABELS:
            found[key] = text
        else:
            record.leave_out(path, value)
    return found


def _attributes(record: Exported, names: Iterable[str]) -> Iterator[tuple[str, str, object]]:
    """The path, key and value of each attribute; objects within objects have dotted keys."""
    for name in names:
        value = record.fields.get(name)
        for path, each in _flat(value, name) if isinstance(value, dict) else [(name, value)]:
            if not says_nothing(each):
                yield path, path.removeprefix(f"{name}."), each


def _flat(value: dict[str, object], path: str) -> Iterator[tuple[str, object]]:
    for key, each in value.items():
        if isinstance(each, dict):
            yield from ((f"{path}.{key}.{inner}", leaf) for inner, leaf in each.items())
        else:
            yield f"{path}.{key}", each


def _text(value: object) -> str:
    """The text of a label; empty if the value has none."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | int | float) else ""


def keywords(record: Exported, *names: str) -> tuple[str, ...]:
    """The strings in lists that tag a record."""
    return tuple(dict.fromkeys(each for name in names for each in names_in(record, name)))


def names_in(record: Exported, name: str) -> Sequence[str]:
    """The strings of a list that an item can have; those too long or too many are left out.

    Raises:
        ValueError: It is not a list of strings.
    """
    given = record.strings(name)
    kept = [each for each in given if is_name(each)][:MAX_VALUES]
    if left := [each for each in given if each not in kept]:
        record.leave_out(name, left)
    return kept


def first_values(record: Exported, name: str, values: Iterable[str]) -> tuple[str, ...]:
    """The values that fit into one list of an item; the others are left out as `name`."""
    distinct = tuple(dict.fromkeys(values))
    if len(distinct) > MAX_VALUES:
        record.leave_out(name, list(distinct[MAX_VALUES:]))
    return distinct[:MAX_VALUES]


def times(record: Exported) -> tuple[datetime | None, dict[str, str]]:
    """When a record was created, and a label with its last change, if it was changed.

    Raises:
        ValueError: They are not times.
    """
    created, updated = record.time(CREATED), record.time(UPDATED)
    changed = updated is not None and updated != created
    return created or updated, {UPDATED: record.string(UPDATED)} if changed else {}
