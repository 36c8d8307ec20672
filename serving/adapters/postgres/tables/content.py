"""Content hashes: when two writes of an item, or two texts to embed, are equal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime

from serving.domain.items.records import Fact, Item, ItemKind, Segment
from serving.domain.items.text import text_of

_FORMAT = 1
"""Part of each hash; another number makes every stored item count as changed."""

_SET_BY_SERVER = {
    *("created_at", "updated_at", "closings", "mentions"),
    *("evidence_expires_at", "extracted", "version"),
}

_TIME = {ItemKind.SEGMENT: "event_time", ItemKind.FACT: "recorded_at"}


def content_hash(
    item: Item,
    text_search_config: str,
    *,
    undated: bool = False,
    expiring: bool = False,
) -> bytes:
    """SHA-256 of everything the client sent about an item, and of its tenant's configuration.

    Entities that the service found do not count. If `undated`, it set the segment's event time or
    the fact's recording time; if `expiring`, it set when the item expires.
    """
    content = _content(item)
    if isinstance(item, Segment) and item.extracted:
        content["entities"] = ()
    if undated:
        content[_TIME[item.item.kind]] = None
    if expiring:
        content["expires_at"] = None
    written = json.dumps(
        [_FORMAT, item.item.kind, text_search_config, content], sort_keys=True, ensure_ascii=True
    )
    return hashlib.sha256(written.encode()).digest()


def repeats(item: Item, stored: Item, *, undated: bool) -> bool:
    """Whether an item says what is stored, whoever named the time, the entities and the sentence.

    An item that was read back has them all, but its hash is another one if it was sent without.
    `undated` items came without a time.
    """
    given, kept = _content(item), _content(stored)
    if undated:
        given[_TIME[item.item.kind]] = kept[_TIME[item.item.kind]]
    if isinstance(item, Fact) and isinstance(stored, Fact):
        given["sentence"], kept["sentence"] = item.statement, stored.statement
    return given == kept


def text_hash(item: Item) -> bytes:
    """SHA-256 of the text that is embedded for an item."""
    return hashlib.sha256(text_of(item).encode()).digest()


def _content(item: Item) -> dict[str, object]:
    return {
        field.name: _to_json(getattr(item, field.name))
        for field in fields(item)
        if field.init and field.name not in _SET_BY_SERVER
    }


def _to_json(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return dict(value) if isinstance(value, Mapping) else value
