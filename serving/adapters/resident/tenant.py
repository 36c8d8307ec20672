"""One tenant in memory."""

from __future__ import annotations

from collections.abc import Iterable

from serving.adapters.resident.entities import Entities
from serving.adapters.resident.times import Times
from serving.adapters.resident.words import Words
from serving.domain.items.records import Item, ItemId, ItemKind, Segment
from serving.domain.languages import language_of
from serving.ports.resident_feed import ResidentRow, TenantChanges, TenantContent

ITEM_BYTES = 2200
"""The memory of an item besides its text, with its share of words and entities: the turns of
LoCoMo, with their facts, take 3.5 kB each by tracemalloc, and as planned."""


class ResidentTenant:
    """The rows of a tenant that are not hidden, with their words and relations.

    One thread at a time uses it.

    Attributes:
        entities: The segments, facts and entities.
        times: The segments by their times.
        words: The words of the segments.
        text_search_config: Its language.
        has_hidden: Whether PostgreSQL has other rows of the tenant, which are hidden.
        bytes: What it takes, planned, not measured.
    """

    def __init__(self, content: TenantContent) -> None:
        self.entities = Entities()
        self.times = Times()
        self.words = Words(language_of(content.text_search_config))
        self.text_search_config = content.text_search_config
        self.has_hidden = content.has_hidden
        self.bytes = 0
        self._put(content.rows)

    def apply(self, changes: TenantChanges) -> None:
        """Applies changes; idempotent."""
        self.has_hidden = changes.has_hidden
        for item in changes.gone:
            self._remove(item)
        self._put(changes.rows)

    def get(self, item: ItemId) -> Item | None:
        """The row of an item, if it is here."""
        if item.kind is ItemKind.SEGMENT:
            turn = self.entities.turns.get(item.id)
            return None if turn is None else turn.segment
        relation = self.entities.relations.get(item.id)
        return None if relation is None else relation.fact

    @property
    def has_facts(self) -> bool:
        """Whether it has facts."""
        return bool(self.entities.relations)

    def _put(self, rows: Iterable[ResidentRow]) -> None:
        for row in rows:
            former = self.get(row.item.item)
            if former is not None:
                self.bytes -= _bytes_of(former)
            self.bytes += _bytes_of(row.item)
            if isinstance(row.item, Segment):
                if former is not None:
                    self.times.remove(self.entities.turns[row.item.id])
                self.entities.put_segment(row.item)
                self.times.add(self.entities.turns[row.item.id])
                self.words.put(row.item, row.tsvector, row.length)
            else:
                self.entities.put_fact(row.item)

    def _remove(self, item: ItemId) -> None:
        former = self.get(item)
        if former is None:
            return
        self.bytes -= _bytes_of(former)
        if item.kind is ItemKind.SEGMENT:
            self.times.remove(self.entities.turns[item.id])
            self.entities.remove_segment(item.id)
            self.words.remove(item.id)
        else:
            self.entities.remove_fact(item.id)


def _bytes_of(item: Item) -> int:
    text = item.text if isinstance(item, Segment) else item.statement
    return ITEM_BYTES + 2 * len(text)
