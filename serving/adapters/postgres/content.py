"""What makes two writes of an item the same, and two texts to embed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime

from serving.domain.records import Item, Segment
from serving.domain.text import text_of

_FORMAT = 1
"""Goes into each hash; another number makes every stored item count as changed."""

_SET_BY_SERVER = {"created_at", "updated_at", "closings"}

_LEFT_OUT = {"closes": (), "single_valued": False}
"""Came with a later version: at these values they do not count, so that what is stored stays
unchanged."""

_COUNTS = object()


def content_hash(
    item: Item, text_search_config: str, *, extracted: bool = False, undated: bool = False
) -> bytes:
    """SHA-256 over all that the client sent of an item, and its tenant's configuration.

    Args:
        item: The item.
        text_search_config: The tenant's.
        extracted: Whether the service, not the client, named the entities.
        undated: Whether the service, not the client, set the time of the segment, or that of
            the fact's recording.
    """
    content = {
        field.name: _plain(getattr(item, field.name))
        for field in fields(item)
        if field.name not in _SET_BY_SERVER
        and _LEFT_OUT.get(field.name, _COUNTS) != getattr(item, field.name)
    }
    if extracted:
        content["entities"] = ()
    if undated:
        content["event_time" if isinstance(item, Segment) else "recorded_at"] = None
    written = json.dumps(
        [_FORMAT, item.item.kind, text_search_config, content], sort_keys=True, ensure_ascii=True
    )
    return hashlib.sha256(written.encode()).digest()


def text_hash(item: Item) -> bytes:
    """SHA-256 of what is embedded of an item."""
    return hashlib.sha256(text_of(item).encode()).digest()


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return dict(value) if isinstance(value, Mapping) else value
