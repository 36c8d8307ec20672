"""Lets a few writes run at once, and those of all tenants in turn.

A tenant that writes a lot waits for itself: one slot is always for other tenants, and when a write
ends, the tenants that wait have their turn one after the other. What waits is bounded, and no
tenant has more than half of that.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from serving.domain.errors import OverloadedError
from serving.domain.items.records import TenantName

AT_ONCE = 3
MOST_WAITING = 29

FIRST_COST_S = 0.05
MEMORY = 0.8
"""The weight of the writes before, in the mean time of a write."""


class WriteSlots:
    """How many writes of a replica run at once, and how many wait.

    Args:
        at_once: How many run at a time, at least 2. A tenant has one less.
        most_waiting: How many wait.
        clock: In seconds.
    """

    def __init__(
        self,
        at_once: int = AT_ONCE,
        most_waiting: int = MOST_WAITING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._at_once = at_once
        self._of_tenant = max(1, at_once - 1)
        self._most_waiting = most_waiting
        self._clock = clock
        self._running: Counter[TenantName] = Counter()
        self._waiting: OrderedDict[TenantName, deque[asyncio.Future[None]]] = OrderedDict()
        """By tenant, the one whose turn is next first."""

        self._cost_s = FIRST_COST_S

    @asynccontextmanager
    async def slot(self, tenant: TenantName, *, patient: bool = False) -> AsyncIterator[None]:
        """Waits for the tenant's turn, and takes a slot until the write has ended.

        Args:
            tenant: Who writes.
            patient: Whether it waits in any case, as the next batch of a stream does.

        Raises:
            OverloadedError: Too many writes wait, or half of them and all of this tenant.
        """
        if self._is_free_for(tenant):
            self._running[tenant] += 1
        else:
            await self._wait(tenant, patient)
        started = self._clock()
        try:
            yield
        finally:
            self._cost_s = MEMORY * self._cost_s + (1 - MEMORY) * (self._clock() - started)
            self._leave(tenant)

    def _is_free_for(self, tenant: TenantName) -> bool:
        return self._running[tenant] < self._of_tenant and self._running.total() < self._at_once

    async def _wait(self, tenant: TenantName, patient: bool) -> None:
        of_tenant = len(self._waiting.get(tenant, ()))
        waiting = sum(map(len, self._waiting.values()))
        full = waiting >= self._most_waiting or of_tenant >= max(1, self._most_waiting // 2)
        if full and not patient:
            retry_s = self._cost_s * (of_tenant + 1) / self._of_tenant
            raise OverloadedError("the queue of writes", round(retry_s, 3))
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(tenant, turn)
            else:  # it was given a slot at the same moment
                self._leave(tenant)
            raise

    def _leave(self, tenant: TenantName) -> None:
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        for next_ in list(self._waiting):
            # Those that were cancelled a moment ago take themselves out of the queue.
            turn = next((each for each in self._waiting[next_] if not each.done()), None)
            if turn is not None and self._is_free_for(next_):
                self._forget(next_, turn)
                self._running[next_] += 1
                turn.set_result(None)

    def _forget(self, tenant: TenantName, turn: asyncio.Future[None]) -> None:
        """Takes a write out of the queue; its tenant is then the last one to have a turn."""
        of_tenant = self._waiting.pop(tenant)
        of_tenant.remove(turn)
        if of_tenant:
            self._waiting[tenant] = of_tenant
