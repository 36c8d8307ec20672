"""Items of a store as segments.

The text is the value as JSON, so that a search finds it by its content, as a store with the field
"$" would. Namespace and key are labels, by which a filter selects.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from langgraph.store.base import Item, PutOp, SearchItem

from trivium import Filter, Segment
from trivium import Item as TriviumItem

KIND = "langgraph"
KIND_NOT_INDEXED = "langgraph-not-indexed"
_KEY = "key"
_LEVEL = "namespace."
_UNKNOWN = datetime.min.replace(tzinfo=UTC)


def id_of(namespace: Sequence[str], key: str) -> str:
    """The id of the segment; namespaces and keys may be longer than an id."""
    path = json.dumps([list(namespace), key]).encode()
    return f"langgraph:{hashlib.sha256(path).hexdigest()}"


def to_segment(op: PutOp) -> Segment:
    """The segment of an item that is written.

    Raises:
        NotImplementedError: `index` names fields.
    """
    if op.index:
        raise NotImplementedError(
            f"index={op.index!r}: Trivium indexes the whole value, or nothing of it (index=False)"
        )
    labels = {f"{_LEVEL}{level}": name for level, name in enumerate(op.namespace)}
    return Segment(
        id=id_of(op.namespace, op.key),
        text=json.dumps(op.value, ensure_ascii=False),
        kind=KIND if op.index is None else KIND_NOT_INDEXED,
        sensitive=op.index is not None,
        labels=labels | {_KEY: op.key},
    )


def below(prefix: Sequence[str], *, indexed: bool = False) -> Filter:
    """Selects the items whose namespace begins with the prefix."""
    return Filter(
        kinds=[KIND] if indexed else [KIND, KIND_NOT_INDEXED],
        labels={f"{_LEVEL}{level}": [name] for level, name in enumerate(prefix)},
    )


def namespace_of(segment: Segment) -> tuple[str, ...]:
    """The namespace of a stored item."""
    depth = sum(label.startswith(_LEVEL) for label in segment.labels)
    return tuple(segment.labels[f"{_LEVEL}{level}"] for level in range(depth))


def key_of(segment: Segment) -> str:
    """The key of a stored item."""
    return segment.labels[_KEY]


def to_item(segment: Segment) -> Item:
    """The item of a stored segment."""
    return Item(**_fields(segment))


def to_search_item(segment: TriviumItem, score: float | None = None) -> SearchItem:
    """The item of a segment that was found."""
    assert isinstance(segment, Segment), "the filter by kind passes no fact as a hit"
    return SearchItem(**_fields(segment), score=score)


def _fields(segment: Segment) -> dict[str, Any]:
    return {
        "value": json.loads(segment.text),
        "key": key_of(segment),
        "namespace": namespace_of(segment),
        "created_at": segment.created_at or _UNKNOWN,
        "updated_at": segment.updated_at or _UNKNOWN,
    }
