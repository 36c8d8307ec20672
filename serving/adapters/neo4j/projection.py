"""Writes what changed as the rows that the statements take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from serving.adapters.neo4j.names import entity_key, tenant_token
from serving.domain.query import segment_terms
from serving.domain.records import Fact, ItemId, ItemKind, Segment, TenantName
from serving.domain.text import name_key
from serving.domain.validity import Closing
from serving.ports import GraphFact, GraphSegment

Value = object
"""What Bolt carries: None, bool, int, float, str, and lists and maps of these."""

Row = dict[str, Value]

EARLIEST, LATEST = -(2**63), 2**63 - 1
"""What no instant precedes or follows, in microseconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(instant: datetime) -> int:
    """An aware instant as whole microseconds since 1970."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


def _optional_microseconds(instant: datetime | None) -> int | None:
    return None if instant is None else microseconds(instant)


def item_row(tenant: TenantName, item: ItemId) -> Row:
    """What names an item in the graph."""
    return {"tenant": tenant, "id": item.id}


def removed_rows(removed: Iterable[tuple[TenantName, ItemId]], kind: ItemKind) -> list[Row]:
    """The removed items of one kind."""
    return [item_row(tenant, item) for tenant, item in removed if item.kind is kind]


def segment_row(change: GraphSegment) -> Row:
    """A segment with the entities that it mentions, who said it included, and is."""
    segment = change.segment
    return {
        **item_row(change.tenant, segment.item),
        "tenant_token": tenant_token(change.tenant),
        "properties": _segment_properties(change.tenant, segment),
        "mentions": _named((*segment.entities, segment.speaker)),
        "is": _named([segment.entity]),
    }


def _segment_properties(tenant: TenantName, segment: Segment) -> Row:
    """What the search filters by; the text is not among it."""
    return {
        **item_row(tenant, segment.item),
        "event_time": microseconds(segment.event_time),
        "created_at": _optional_microseconds(segment.created_at),
        "updated_at": _optional_microseconds(segment.updated_at),
        "importance": segment.importance,
        "terms": sorted(segment_terms(segment)),
    }


def fact_row(change: GraphFact) -> Row:
    """A fact with its ends and its evidence."""
    fact = change.fact
    return {
        **item_row(change.tenant, fact.item),
        "tenant_token": tenant_token(change.tenant),
        "properties": _fact_properties(change.tenant, fact),
        "subject": _entity(fact.subject),
        "object": _entity(fact.object),
        "evidence": list(dict.fromkeys(fact.evidence)),
    }


def _fact_properties(tenant: TenantName, fact: Fact) -> Row:
    """What the walk needs; the sentence is not among it."""
    return {
        **item_row(tenant, fact.item),
        "relation": fact.relation,
        "weight": fact.weight,
        "valid_from": _optional_microseconds(fact.valid_from),
        "valid_to": _optional_microseconds(fact.valid_to),
        "recorded_at": microseconds(fact.recorded_at),
        "retracted_at": _optional_microseconds(fact.retracted_at),
        **_closings(fact.closings),
    }


def _closings(closings: Sequence[Closing]) -> Row:
    """What ended the fact, as parallel lists; nothing of what nothing ended."""
    if not closings:
        return {}
    return {
        "closed_at": [microseconds(closing.at) for closing in closings],
        "closing_recorded_at": [microseconds(closing.recorded_at) for closing in closings],
        # A list has no place for null.
        "closing_retracted_at": [
            LATEST if closing.retracted_at is None else microseconds(closing.retracted_at)
            for closing in closings
        ],
    }


def _named(names: Iterable[str]) -> list[Row]:
    """The entities of the names, each once, without the blank."""
    entities = {entity_key(name): _entity(name) for name in names if name_key(name)}
    return list(entities.values())


def _entity(name: str) -> Row:
    return {"key": entity_key(name), "name": name}
