"""Writes segments and facts as the lines of JSON that `reading` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from trivium.files.reading import FACT, OBSERVATION, SEGMENT
from trivium.values import Fact, Item


def to_line(item: Item) -> str:
    """The item as a line; fields that are empty or follow from others are left out."""
    form = SEGMENT
    if isinstance(item, Fact):
        form, item = FACT, replace(item, sentence=_own_sentence(item))
    fields = {name: _to_json(getattr(item, field)) for name, (field, _) in form.items()}
    given = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(given, ensure_ascii=False) + "\n"


def _own_sentence(fact: Fact) -> str:
    """The sentence, unless it is the one that the server makes of the other fields."""
    implied = replace(fact, sentence="").statement
    # To `reading` an observation without a sentence has its object as one.
    return "" if fact.sentence == implied and fact.relation != OBSERVATION else fact.sentence


def _to_json(value: Any) -> Any:
    """The value as JSON has it; None if it is empty or False."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value) or None
    if isinstance(value, int | float) and value is not False:
        return value
    return value or None
