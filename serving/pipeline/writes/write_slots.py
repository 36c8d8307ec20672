"""Lets a few writes run at once, and those of all tenants in turn.

A tenant that writes a lot waits for itself: one slot is always for other tenants, and when a write
ends, the tenants that wait have their turn one after the other, each as often as its weight says.

What waits is bounded, and a tenant alone may have all of it. When another one needs a place, the
last write of the tenant with the most for its weight gives way: it has not begun, and had waited
the least. A part kept free for others would instead be lost to a tenant alone, and be too small for
many others.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

from serving.domain.errors import OverloadedError
from serving.domain.items.records import TenantName
from serving.domain.token_buckets import TokenBuckets

AT_ONCE = 3
MOST_WAITING = 29

FIRST_COST_S = 0.05
MEMORY = 0.8
"""The weight of the writes before, in the mean time of a write."""


@dataclass(eq=False, slots=True)
class _Write:
    """A write that waits; its turn has come, or it was refused, when the future is done."""

    patient: bool
    turn: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class WriteSlots:
    """How many writes of a replica run at once, and how many wait.

    Args:
        at_once: How many run at a time, at least 2. A tenant has one less.
        most_waiting: How many wait, apart from the patient ones.
        weights: By tenant; 1 for the others.
        clock: In seconds.
        rates: How often tenants may write.
    """

    def __init__(
        self,
        at_once: int = AT_ONCE,
        most_waiting: int = MOST_WAITING,
        weights: Mapping[TenantName, float] = MappingProxyType({}),
        clock: Callable[[], float] = time.monotonic,
        rates: TokenBuckets | None = None,
    ) -> None:
        self._rates = TokenBuckets() if rates is None else rates
        self._at_once = at_once
        self._of_tenant = max(1, at_once - 1)
        self._most_waiting = most_waiting
        self._weights = weights
        self._clock = clock
        self._running: Counter[TenantName] = Counter()
        self._waiting: OrderedDict[TenantName, deque[_Write]] = OrderedDict()
        """By tenant, the one that had its turn last at the end."""

        self._due: dict[TenantName, float] = {}
        """When a tenant that waits has its turn, in turns of a tenant with the weight 1."""

        self._last_due = 0.0
        self._cost_s = FIRST_COST_S

    @asynccontextmanager
    async def slot(self, tenant: TenantName, *, patient: bool = False) -> AsyncIterator[None]:
        """Waits for the tenant's turn, and takes a slot until the write has ended.

        Args:
            tenant: Who writes.
            patient: Whether it waits in any case, as the next batch of a stream does. The streams
                that are open bound these.

        Raises:
            OverloadedError: Too many writes wait, and no tenant has more of them for its weight.
            RateLimitedError: The tenant writes more often than it may, and is not patient.
        """
        if not patient:
            self._rates.take(tenant)
        elif wait_s := self._rates.reserve(tenant):
            await asyncio.sleep(wait_s)
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

    def _weight(self, tenant: TenantName) -> float:
        return self._weights.get(tenant, 1.0)

    def _is_free_for(self, tenant: TenantName) -> bool:
        return self._running[tenant] < self._of_tenant and self._running.total() < self._at_once

    async def _wait(self, tenant: TenantName, patient: bool) -> None:
        if not patient:
            self._make_room(tenant)
        write = _Write(patient)
        self._waiting.setdefault(tenant, deque()).append(write)
        self._due.setdefault(tenant, self._last_due + 1 / self._weight(tenant))
        try:
            await write.turn
        except asyncio.CancelledError:
            if write.turn.cancelled():
                self._remove(tenant, write)
            elif write.turn.exception() is None:  # it was given a slot at the same moment
                self._leave(tenant)
            raise

    def _make_room(self, tenant: TenantName) -> None:
        """Refuses a write if too many wait: this one, or the last of the tenant with the most.

        How many a tenant has is by its weight, beyond one that each tenant may have.
        """
        refusable = {
            each: [write for write in writes if not (write.patient or write.turn.done())]
            for each, writes in self._waiting.items()
        }
        if sum(map(len, refusable.values())) < self._most_waiting:
            return
        own = len(refusable.get(tenant, ()))
        beyond = {
            each: (len(writes) - 1) / self._weight(each) for each, writes in refusable.items()
        }
        most = max(beyond, key=beyond.__getitem__)
        if own / self._weight(tenant) >= beyond[most]:
            raise self._refusal(own)
        last = refusable[most][-1]
        self._remove(most, last)
        last.turn.set_exception(self._refusal(len(refusable[most]) - 1))

    def _refusal(self, before: int) -> OverloadedError:
        """Refuses a write before which so many of its tenant wait."""
        return OverloadedError(
            "the queue of writes", round(self._cost_s * (before + 1) / self._of_tenant, 3)
        )

    def _leave(self, tenant: TenantName) -> None:
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        for next_ in sorted(self._waiting, key=self._due.__getitem__):
            # Those that were cancelled a moment ago take themselves out of the queue.
            write = next((each for each in self._waiting[next_] if not each.turn.done()), None)
            if write is not None and self._is_free_for(next_):
                self._last_due = max(self._last_due, self._due[next_])
                self._remove(next_, write)
                if next_ in self._waiting:
                    self._waiting.move_to_end(next_)
                    self._due[next_] += 1 / self._weight(next_)
                self._running[next_] += 1
                write.turn.set_result(None)

    def _remove(self, tenant: TenantName, write: _Write) -> None:
        of_tenant = self._waiting[tenant]
        of_tenant.remove(write)
        if not of_tenant:
            del self._waiting[tenant], self._due[tenant]
