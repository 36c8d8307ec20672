"""A log of transactions in memory, which a test begins and commits in any order."""

from __future__ import annotations

import asyncio
import contextlib
from typing import NamedTuple

from serving.domain.changes import ChangesPosition, LogRow, positions_after
from serving.domain.consistency import NOTHING_SEEN, ConsistencyToken, Snapshot
from serving.domain.errors import ChangesGoneError
from serving.domain.items.records import ItemId, TenantName
from serving.ports.change_feed import ChangesRead, ItemChange
from tests.support.builders import TENANT

EPOCH = "e"


class Logged(NamedTuple):
    """A change in the log."""

    xid: int
    seq: int
    item: ItemId
    erased: bool


class InMemoryChangeFeed:
    """`ChangeFeed` of what is logged in it."""

    def __init__(self) -> None:
        self.is_gone = False
        self._running: set[int] = set()
        self._next = NOTHING_SEEN.xmax
        self._rows: list[tuple[TenantName, Logged]] = []
        self._announced = 0
        self._changed = asyncio.Event()

    def begin(self) -> int:
        """Begins a transaction, and returns its id."""
        self._running.add(self._next)
        self._next += 1
        return self._next - 1

    def log(
        self, xid: int, *items: ItemId, tenant: TenantName = TENANT, erased: bool = False
    ) -> None:
        """Logs changes in a transaction."""
        for item in items:
            change = Logged(xid, len(self._rows) + 1, item, erased)
            self._rows.append((tenant, change))

    def commit(self, xid: int) -> ConsistencyToken:
        """Commits a transaction, and announces it."""
        self._running.remove(xid)
        self._announced += 1
        self._changed.set()
        self._changed = asyncio.Event()
        return ConsistencyToken.of(EPOCH, [xid])

    def write(self, *items: ItemId, erased: bool = False) -> ConsistencyToken:
        """Changes items of the test tenant in a transaction of their own."""
        xid = self.begin()
        self.log(xid, *items, erased=erased)
        return self.commit(xid)

    def _snapshot(self) -> Snapshot:
        return Snapshot(self._next, frozenset(self._running))

    async def now(self) -> ChangesPosition:
        return ChangesPosition(EPOCH, self._snapshot())

    async def after_write(self, token: ConsistencyToken) -> ChangesPosition:
        if self.is_gone or token.epoch != EPOCH:
            raise ChangesGoneError("it is older than the log")
        return ChangesPosition(EPOCH, NOTHING_SEEN)

    async def read(self, tenant: TenantName, position: ChangesPosition, limit: int) -> ChangesRead:
        if self.is_gone or position.epoch != EPOCH:
            raise ChangesGoneError("it is older than the log")
        now = self._snapshot()
        unread = [
            row
            for of, row in self._rows
            if of == tenant
            and now.includes(row.xid)
            and not position.log.includes(row.xid)
            and row.seq > position.begun.get(row.xid, 0)
        ]
        newest = {row.item: row.seq for row in unread}
        beyond = sorted(row for row in unread if row.seq == newest[row.item])
        rows, last = beyond[:limit], len(beyond) < limit
        after = positions_after(
            position, now, [LogRow(row.xid, row.seq) for row in rows], last=last
        )
        changes = [
            ItemChange(row.item, row.erased, at) for row, at in zip(rows, after, strict=True)
        ]
        return ChangesRead(changes, ChangesPosition(EPOCH, now) if last else after[-1], last)

    def heard(self) -> int:
        return self._announced

    async def wait_beyond(self, heard: int, timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._announced <= heard:
                    await self._changed.wait()
