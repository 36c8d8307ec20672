"""Changed items as the rows that the statements take, and their writing in a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import cast

import neo4j

from serving.adapters.neo4j import statements
from serving.adapters.neo4j.names import tenant_token
from serving.domain.items.instants import AFTER_ALL, microseconds
from serving.domain.items.records import Fact, ItemId, ItemKind, Segment, TenantName
from serving.domain.items.text import name_key
from serving.domain.items.validity import Closing
from serving.domain.questions.filters import segment_terms
from serving.domain.questions.named_entities import entity_key, entity_words
from serving.ports.graph import GraphChanges

Value = object
"""A Bolt value: None, bool, int, float, str, or a list or map of these."""

Row = dict[str, Value]

ROWS_PER_STATEMENT = 500


def _optional_microseconds(instant: datetime | None) -> int | None:
    return None if instant is None else microseconds(instant)


def item_row(tenant: TenantName, item: ItemId) -> Row:
    """The properties that identify an item's node."""
    return {"tenant": tenant, "id": item.id}


def segment_row(tenant: TenantName, segment: Segment) -> Row:
    """A segment with the entities that it mentions, the speaker included, and the one it is.

    Its properties are what searches filter by; the text is not among them.
    """
    name = item_row(tenant, segment.item)
    return {
        **name,
        "tenant_token": tenant_token(tenant),
        "properties": {
            **name,
            "event_time": microseconds(segment.event_time),
            "created_at": _optional_microseconds(segment.created_at),
            "updated_at": _optional_microseconds(segment.updated_at),
            "importance": segment.importance,
            "terms": sorted(segment_terms(segment)),
        },
        "mentions": _entities((*segment.entities, segment.speaker)),
        "is": _entities([segment.entity]),
    }


def fact_row(tenant: TenantName, fact: Fact) -> Row:
    """A fact with its ends and its evidence; the sentence is not among its properties."""
    name = item_row(tenant, fact.item)
    return {
        **name,
        "tenant_token": tenant_token(tenant),
        "properties": {
            **name,
            "relation": fact.relation,
            "weight": fact.weight,
            "valid_from": _optional_microseconds(fact.valid_from),
            "valid_to": _optional_microseconds(fact.searched_until),
            "recorded_at": microseconds(fact.recorded_at),
            "retracted_at": _optional_microseconds(fact.retracted_at),
            **_closings(fact.closings),
        },
        "subject": _entity(fact.subject),
        "object": _entity(fact.object),
        "evidence": list(dict.fromkeys(fact.evidence)),
    }


def _closings(closings: Sequence[Closing]) -> Row:
    """The closings as parallel lists; no properties for a fact without closings."""
    if not closings:
        return {}
    return {
        "closed_at": [microseconds(closing.at) for closing in closings],
        "closing_recorded_at": [microseconds(closing.recorded_at) for closing in closings],
        # Neo4j lists cannot contain null.
        "closing_retracted_at": [
            AFTER_ALL if closing.retracted_at is None else microseconds(closing.retracted_at)
            for closing in closings
        ],
    }


def _entities(names: Iterable[str]) -> list[Row]:
    """The distinct entities of the names; blank names are dropped."""
    entities = {entity_key(name): _entity(name) for name in names if name_key(name)}
    return list(entities.values())


def _entity(name: str) -> Row:
    return {"key": entity_key(name), "words": entity_words(name), "name": name}


async def write_changes(transaction: neo4j.AsyncTransaction, changes: GraphChanges) -> None:
    """Removes items, writes items, then deletes nodes that are no longer referenced.

    The nodes that the items reference before the change are the candidates for deletion.
    """
    segments = [segment_row(*change) for change in changes.segments]
    facts = [fact_row(*change) for change in changes.facts]
    removed = {
        kind: [item_row(tenant, item) for tenant, item in changes.removed if item.kind is kind]
        for kind in ItemKind
    }
    changed = {
        "segments": [*segments, *removed[ItemKind.SEGMENT]],
        "facts": [*facts, *removed[ItemKind.FACT]],
    }
    names = {
        kind: [{"tenant": row["tenant"], "id": row["id"]} for row in rows]
        for kind, rows in changed.items()
    }
    result = await transaction.run(statements.REFERENCED, given=names)
    record = await result.single(strict=True)
    referenced = cast(list[str], record[0])

    for statement, rows in (
        (statements.REMOVE_FACTS, removed[ItemKind.FACT]),
        (statements.REMOVE_SEGMENTS, removed[ItemKind.SEGMENT]),
        (statements.WRITE_SEGMENTS, segments),
        (statements.WRITE_FACTS, facts),
    ):
        for start in range(0, len(rows), ROWS_PER_STATEMENT):
            part = rows[start : start + ROWS_PER_STATEMENT]
            await (await transaction.run(statement, given={"rows": part})).consume()
    result = await transaction.run(statements.DELETE_UNREFERENCED, given={"referenced": referenced})
    await result.consume()
