"""Facts about where somebody lives, and short ways to write others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from trivium import Fact

BEGUN = datetime(2024, 1, 1, 8, 30, 0, 123_456, tzinfo=UTC)


def day(count: float) -> datetime:
    return BEGUN + timedelta(days=count)


def of_nora(id_: str, relation: str, object_: str, **fields: Any) -> Fact:
    return Fact(id=id_, subject="Nora", relation=relation, object=object_, **fields)


def lives_in(object_: str, since: float, known: float, **fields: Any) -> Fact:
    """A fact that ends the one before it; `since` and `known` are days."""
    times = {"valid_from": day(since), "recorded_at": day(known)}
    return of_nora(object_.lower(), "lives in", object_, single_valued=True, **times, **fields)
