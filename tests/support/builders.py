"""Short ways to write the values that tests are made of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from serving.domain.items.records import Fact, Item, ItemId, Segment, TenantName, segment_id
from serving.domain.questions.query import NO_FILTER, Filter, Query, Scope
from serving.domain.ranking.ranked_list import Candidate, RankedList
from serving.ports.memory_store import Batch

TENANT, OTHER = TenantName("acme"), TenantName("other")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
A_DAY_LATER = NOON + timedelta(days=1)


def days(count: float) -> timedelta:
    """A duration."""
    return timedelta(days=count)


def segment(id_: str, text: str = "We sailed to Goa.", **fields: Any) -> Segment:
    """A segment said at noon."""
    return Segment(**{"id": id_, "text": text, "event_time": NOON, **fields})


def mentioning(**names: str) -> list[Segment]:
    """Segments by their ids, each with the names that it mentions: `mentioning(a="Ann, Bob")`."""
    return [segment(id_, entities=tuple(of.split(", "))) for id_, of in names.items()]


def fact(id_: str, subject: str, relation: str, object_: str, **fields: Any) -> Fact:
    """A fact recorded at noon."""
    given = {"subject": subject, "relation": relation, "object": object_, "recorded_at": NOON}
    return Fact(**{"id": id_, **given, **fields})


def batch_of(*items: Item) -> Batch:
    """A write of the test tenant."""
    return Batch(TENANT, items)


def scope(
    tenant: str = TENANT,
    *,
    as_of: datetime = A_DAY_LATER,
    filter_: Filter = NO_FILTER,
    known_at: datetime | None = None,
) -> Scope:
    """What a query may see: by default all of the test tenant, a day after noon."""
    return Scope(tenant=TenantName(tenant), as_of=as_of, filter=filter_, known_at=known_at)


def query(text: str, **fields: Any) -> Query:
    """A question within `scope()`."""
    return Query(**{"scope": scope(), "text": text, **fields})


def ids(*names: str) -> list[ItemId]:
    """The segments of these names."""
    return [segment_id(name) for name in names]


def ranked(leg: str, names: str) -> RankedList:
    """`ranked("dense", "a b")` is the list with segment a first and b second."""
    items = ids(*names.split())
    return RankedList(
        leg, tuple(Candidate(item, 1.0 / place) for place, item in enumerate(items, start=1))
    )
