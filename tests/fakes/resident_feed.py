"""A feed of tenants in memory, and a graph whose default walk such a tenant answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Collection, Sequence

from serving.adapters.postgres.words.tsvector import stored_words
from serving.adapters.resident import TenantsInMemory
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken, Snapshot
from serving.domain.items.records import Item, ItemId, Segment, TenantName
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import Walk
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.graph import GraphChanges
from serving.ports.index_engine import FeedLostError
from serving.ports.resident_feed import (
    LogPosition,
    ResidentDelta,
    ResidentRow,
    TenantChanges,
    TenantContent,
    TenantTooLargeError,
)
from tests.fakes.graph import InMemoryGraph
from tests.support.builders import TENANT

FIRST = 3
"""The first transaction of a log."""


class InMemoryFeed:
    """A `ResidentFeed` of what is put into it; each change is a transaction of its own."""

    def __init__(self) -> None:
        self.announced: defaultdict[TenantName | None, int] = defaultdict(int)
        self.reads = 0
        self.reads_of_changes = 0
        self.is_lost = False
        self.hiding: set[TenantName] = set()
        self._tenants: defaultdict[TenantName, dict[ItemId, Item]] = defaultdict(dict)
        self._log: list[tuple[TenantName, ItemId]] = []
        self._changed = asyncio.Event()

    def put(self, *items: Item, tenant: TenantName = TENANT) -> ConsistencyToken:
        """Writes items, and announces that."""
        for item in items:
            self._tenants[tenant][item.item] = item
            self._log.append((tenant, item.item))
        return self._announce(tenant)

    def remove(self, *items: ItemId, tenant: TenantName = TENANT) -> ConsistencyToken:
        """Erases items, and announces that."""
        for item in items:
            self._tenants[tenant].pop(item, None)
            self._log.append((tenant, item))
        return self._announce(tenant)

    def _announce(self, tenant: TenantName) -> ConsistencyToken:
        self.announced[None] += 1
        self.announced[tenant] = self.announced[None]
        self._changed.set()
        return ConsistencyToken.of("", [self._next - 1])

    @property
    def _next(self) -> int:
        return FIRST + len(self._log)

    def heard(self, tenant: TenantName | None = None) -> int:
        return self.announced[tenant]

    async def position(self) -> LogPosition:
        return LogPosition("", Snapshot(self._next))

    async def content(self, tenant: TenantName, most: int) -> TenantContent | None:
        self.reads += 1
        items = self._tenants.get(tenant)
        if items is None:
            return None
        if len(items) > most:
            raise TenantTooLargeError
        return TenantContent([*map(_row, items.values())], "english", tenant in self.hiding)

    async def changes_since(
        self, position: LogPosition, tenants: Collection[TenantName]
    ) -> ResidentDelta:
        self.reads_of_changes += 1
        if self.is_lost:
            self.is_lost = False
            raise FeedLostError
        changed: defaultdict[TenantName, dict[ItemId, None]] = defaultdict(dict)
        for tenant, item in self._log[position.log.xmax - FIRST :]:
            if tenant in tenants:
                changed[tenant][item] = None
        changes = {tenant: self._changes(tenant, items) for tenant, items in changed.items()}
        return ResidentDelta(await self.position(), changes)

    def _changes(self, tenant: TenantName, items: Collection[ItemId]) -> TenantChanges:
        present = self._tenants[tenant]
        rows = [_row(present[item]) for item in items if item in present]
        gone = [item for item in items if item not in present]
        return TenantChanges(rows, gone, "english", tenant in self.hiding)

    async def was_waited_for(self) -> bool:
        """Whether what was announced has ended a wait."""
        return not self._changed.is_set()

    async def wait(self, timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout_s)
        self._changed.clear()


def _row(item: Item) -> ResidentRow:
    if not isinstance(item, Segment):
        return ResidentRow(item)
    words = stored_words(item, "english")
    return ResidentRow(item, words.tsv, words.dl)


class ViewedGraph(InMemoryGraph):
    """A `Graph` whose default walk a view answers; the reference answers the others."""

    def __init__(self) -> None:
        super().__init__()
        self._feed = InMemoryFeed()
        self._view = TenantsInMemory(self._feed, 2**30)

    async def apply(self, changes: GraphChanges) -> None:
        await super().apply(changes)
        for tenant, removed in changes.removed:
            self._feed.remove(removed, tenant=tenant)
        for tenant, segment in changes.segments:
            self._feed.put(segment, tenant=tenant)
        for tenant, fact in changes.facts:
            self._feed.put(fact, tenant=tenant)

    async def search(
        self,
        query: Query,
        walk: Walk,
        seeds: Sequence[ItemId] | None,
        depth: int,
        yields: Yields,
        deadline: Deadline,
    ) -> list[Candidate]:
        if seeds is not None or walk != Walk() or yields is not Yields.EVIDENCE or deadline.passed:
            return await super().search(query, walk, seeds, depth, yields, deadline)
        await self._view.advance()
        if not await self._view.load(query.scope.tenant, Deadline.after(60)):
            return []
        found = self._view.walk(query, walk, depth, yields)
        assert found is not None
        return found
