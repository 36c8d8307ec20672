"""Content hashes: when two writes of an item, or two texts to embed, are equal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime

from serving.domain.items.records import Item, Segment
from serving.domain.items.text import text_of

_FORMAT = 1
"""Part of each hash; another number makes every stored item count as changed."""

_SET_BY_SERVER = {"created_at", "updated_at", "closings"}

_OMITTED_DEFAULTS = {"closes": (), "single_valued": False, "keywords": ()}
"""Fields of a later version. Omitted at these values, so that older rows keep their hash."""

_NO_DEFAULT = object()


def content_hash(
    item: Item, text_search_config: str, *, extracted: bool = False, undated: bool = False
) -> bytes:
    """SHA-256 of everything the client sent about an item, and of its tenant's configuration.

    Args:
        item: The item.
        text_search_config: The tenant's.
        extracted: Whether the service, not the client, named the entities.
        undated: Whether the service, not the client, set the segment's event time or the fact's
            recording time.
    """
    content = {
        field.name: _to_json(getattr(item, field.name))
        for field in fields(item)
        if field.name not in _SET_BY_SERVER
        and _OMITTED_DEFAULTS.get(field.name, _NO_DEFAULT) != getattr(item, field.name)
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
    """SHA-256 of the text that is embedded for an item."""
    return hashlib.sha256(text_of(item).encode()).digest()


def _to_json(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return dict(value) if isinstance(value, Mapping) else value
