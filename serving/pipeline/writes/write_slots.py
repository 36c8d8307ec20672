"""Lets a few writes run at once; a tenant that writes a lot waits for itself.

A tenant has one slot less than there are, so its next write leaves one for others. What waits is
bounded, and a tenant has three quarters of the places at most.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from serving.domain.errors import OverloadedError
from serving.domain.items.records import TenantName
from serving.domain.token_buckets import TokenBuckets

INITIAL_WRITE_S = 0.05
EWMA_DECAY = 0.8
MAX_TENANT_SHARE = 0.75


class WriteSlots:
    """The concurrent and the pending writes of a replica.

    At least 2 run at a time; `max_writes` run or wait, apart from the patient ones.
    """

    def __init__(
        self, max_concurrent: int = 3, max_writes: int = 32, *, rates: TokenBuckets | None = None
    ) -> None:
        self._max_concurrent = max_concurrent
        self._max_writes = max_writes
        self._rates = TokenBuckets() if rates is None else rates
        self._slots = asyncio.Semaphore(max_concurrent)
        self._slots_of: WeakValueDictionary[TenantName, asyncio.Semaphore] = WeakValueDictionary()
        self._writes: Counter[TenantName] = Counter()
        self._write_s = INITIAL_WRITE_S

    @asynccontextmanager
    async def slot(self, tenant: TenantName, *, patient: bool = False) -> AsyncIterator[None]:
        """Waits for a slot, and keeps it until the write has ended.

        A `patient` write waits in any case, as the next batch of a stream does. The streams that
        are open bound these.

        Raises:
            OverloadedError: Too many writes wait, of all tenants or of this one.
            RateLimitedError: The tenant writes more often than it may, and is not patient.
        """
        if patient:
            await asyncio.sleep(self._rates.reserve(tenant))
            async with self._running(tenant):
                yield
            return
        self._rates.take(tenant)
        writes = self._writes[tenant]
        most = self._max_writes
        if self._writes.total() >= most or writes >= MAX_TENANT_SHARE * most:
            retry_s = self._write_s * (writes + 1) / (self._max_concurrent - 1)
            raise OverloadedError("the queue of writes", round(retry_s, 3))
        self._writes[tenant] += 1
        try:
            async with self._running(tenant):
                yield
        finally:
            self._writes[tenant] -= 1
            if not self._writes[tenant]:
                del self._writes[tenant]

    @asynccontextmanager
    async def _running(self, tenant: TenantName) -> AsyncIterator[None]:
        own = self._slots_of.setdefault(tenant, asyncio.Semaphore(self._max_concurrent - 1))
        async with own, self._slots:
            started = time.monotonic()
            try:
                yield
            finally:
                elapsed_s = time.monotonic() - started
                self._write_s = EWMA_DECAY * self._write_s + (1 - EWMA_DECAY) * elapsed_s
