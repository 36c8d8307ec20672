"""What a tenant's items say by the definitions alone, which all else is held against."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from serving.domain.items.records import Fact, Item, ItemId, ItemKind, Segment
from serving.domain.items.text import name_key


def closes(closer: Fact, fact: Fact) -> bool:
    """Whether one fact ends another."""
    if closer.id == fact.id:
        return False
    if fact.id in closer.closes:
        return True
    same_topic = name_key(closer.subject) == name_key(fact.subject) and name_key(
        closer.relation
    ) == name_key(fact.relation)
    later = (start(closer), closer.recorded_at, closer.id) > (
        start(fact),
        fact.recorded_at,
        fact.id,
    )
    return closer.single_valued and same_topic and later


def start(fact: Fact) -> datetime:
    """From when a fact takes the place of others."""
    return fact.valid_from if fact.valid_from is not None else fact.recorded_at


def known(fact: Fact, known_at: datetime | None) -> bool:
    """Whether it was recorded, and not retracted yet; without `known_at`, all is known."""
    if known_at is None:
        return fact.retracted_at is None
    recorded = fact.recorded_at <= known_at
    return recorded and (fact.retracted_at is None or fact.retracted_at > known_at)


def held(facts: Iterable[Fact], as_of: datetime, known_at: datetime | None = None) -> list[str]:
    """The ids of the facts that were true at `as_of`, as far as was known."""
    all_known = [fact for fact in facts if known(fact, known_at)]
    return sorted(
        fact.id
        for fact in all_known
        if (fact.valid_from is None or fact.valid_from <= as_of)
        and (fact.valid_to is None or as_of < fact.valid_to)
        and not any(closes(other, fact) and start(other) <= as_of for other in all_known)
    )


class Table:
    """All items as they were sent last, without anything worked out."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.segments: dict[str, Segment] = {}

    def write(self, items: Iterable[Item]) -> None:
        """Takes the items in place of those of the same name."""
        for item in items:
            if isinstance(item, Fact):
                self.facts[item.id] = item
            else:
                self.segments[item.id] = item

    def erase(self, item: ItemId) -> None:
        """Forgets an item, and with a segment the facts that have no other evidence."""
        if item.kind is ItemKind.FACT:
            self.facts.pop(item.id, None)
            return
        self.segments.pop(item.id, None)
        for one in list(self.facts.values()):
            left = tuple(said for said in one.evidence if said != item.id)
            if one.evidence and not left:
                del self.facts[one.id]
            else:
                self.facts[one.id] = replace(one, evidence=left)


def bare(fact: Fact) -> Fact:
    """A fact without what the server adds to it."""
    return replace(fact, closings=(), created_at=None, updated_at=None)
