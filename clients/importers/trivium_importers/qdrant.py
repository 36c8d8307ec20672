"""Qdrant: the points that `scroll` returns, as JSON lines or as the response of the REST API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from trivium.files.reading import Found
from trivium.files.records import Record
from trivium.values import Item, Segment
from trivium_importers.attributes import keywords, labels
from trivium_importers.exported import elements
from trivium_importers.translation import Exported, Translation

TEXT_KEYS = ("text", "document", "page_content", "content", "data")
"""Keys of the text of a payload; LangChain, mem0 and FastEmbed write the last four."""
NODE = "_node_content"
"""The key of a whole node of LlamaIndex, as JSON; its metadata are in the payload, too."""
LINKS = ("_node_type", "document_id", "doc_id", "ref_doc_id")
TIME_KEYS = ("event_time", "timestamp", "created_at")


def items(
    records: Iterable[Record], translation: Translation, text_key: str = ""
) -> Iterator[Found[Item]]:
    """Points become segments; `text_key` is where their text is, by default one of `TEXT_KEYS`."""

    def translate(exported: Exported) -> Iterator[Found[Item]]:
        return point(exported, (text_key,) if text_key else TEXT_KEYS)

    for record in records:
        for each in _points(record, translation):
            yield from translation.items("point", each, translate)


def _points(record: Record, translation: Translation) -> Iterator[Record]:
    """The points of a response of the API; a record of JSON lines is one itself."""
    result = record.fields.get("result", record.fields)
    if not isinstance(result, dict) or "points" not in result:
        yield record
        return
    page = Record(record.place, result)
    yield from elements(page, "points", translation.problems.append)
    next_page = result.get("next_page_offset")
    translation.leave_out("page", page.place, next_page, "next_page_offset")


def point(point: Exported, text_keys: Sequence[str]) -> Iterator[Found[Item]]:
    """The segment of a point: its payload has the text under one of the keys, and the rest.

    Raises:
        ValueError: It has no text, or no id.
    """
    payload = point.within("payload")
    text = payload.first(*text_keys) or _text_of_node(payload)
    if not text.strip():
        keys = ", ".join(text_keys)
        raise ValueError(f"its payload has no text ({keys}); --text-key names another key")
    segment = Segment(
        id=_id(point.fields.get("id")),
        text=text,
        title=payload.string("title"),
        kind=payload.string("kind"),
        speaker=payload.string("speaker"),
        session=payload.string("session"),
        event_time=_time(payload),
        keywords=keywords(payload, "tags", "keywords", "categories"),
    )
    yield point.found(replace(segment, labels=labels(payload, *payload.rest())))


def _text_of_node(payload: Exported) -> str:
    """The text of LlamaIndex's node; empty if it is none. What links it to documents is read."""
    try:
        node = json.loads(payload.string(NODE) or "{}")
        resource = node.get("text_resource") or {}
        text = node.get("text") or resource.get("text") or ""
    except (AttributeError, RecursionError, ValueError) as error:
        raise ValueError(f"{NODE!r} is no node of LlamaIndex: {error}") from error
    for name in LINKS:
        payload.fields.get(name)
    return text if isinstance(text, str) else ""


def _id(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"'id' must be a number or a string, got {value!r}")
    return str(value)


def _time(payload: Exported) -> datetime | None:
    """The time of the first key that has one; other values are left out."""
    for name in TIME_KEYS:
        try:
            if time := payload.time(name):
                return time
        except ValueError:
            payload.leave_out(name, payload.fields[name])
    return None
