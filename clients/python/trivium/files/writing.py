"""Writes segments and facts as the lines of JSON that `reading` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from trivium.files.reading import OBSERVATION
from trivium.values import Fact, Item, Segment


def to_line(item: Item) -> str:
    """The item as a line; fields that are empty or follow from others are left out."""
    fields = _of_fact(item) if isinstance(item, Fact) else _of_segment(item)
    given = {name: value for name, value in fields.items() if value not in (None, "", [], {})}
    return json.dumps(given, ensure_ascii=False) + "\n"


def _of_segment(segment: Segment) -> Mapping[str, object]:
    return {
        "id": segment.id,
        "text": segment.text,
        "title": segment.title,
        "kind": segment.kind,
        "speaker": segment.speaker,
        "session": segment.session,
        "timestamp": _time(segment.event_time),
        "importance": segment.importance,
        "sensitive": segment.sensitive or None,
        "labels": dict(segment.labels),
        "entities": list(segment.entities),
        "entity": segment.entity,
        "keywords": list(segment.keywords),
        "created_at": _time(segment.created_at),
        "expires_at": _time(segment.expires_at),
    }


def _of_fact(fact: Fact) -> Mapping[str, object]:
    return {
        "id": fact.id,
        "subject": fact.subject,
        "relation": fact.relation,
        "object": fact.object,
        "sentence": _own_sentence(fact),
        "valid_from": _time(fact.valid_from),
        "valid_to": _time(fact.valid_to),
        "timestamp": _time(fact.recorded_at),
        "retracted_at": _time(fact.retracted_at),
        "evidence": list(fact.evidence),
        "weight": fact.weight,
        "sensitive": fact.sensitive or None,
        "closes": list(fact.closes),
        "single_valued": fact.single_valued or None,
        "expires_at": _time(fact.expires_at),
    }


def _own_sentence(fact: Fact) -> str:
    """The sentence, unless it is the one that the server makes of the other fields."""
    implied = replace(fact, sentence="").statement
    # To `reading` an observation without a sentence has its object as one.
    return "" if fact.sentence == implied and fact.relation != OBSERVATION else fact.sentence


def _time(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()
