"""Limits how often each tenant may call, by a token bucket for each.

The state of a bucket is the time at which it will be full, as in the generic cell rate algorithm
(ITU-T I.371): nothing has to be refilled, and a full bucket needs no state.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from serving.domain.errors import RateLimitedError
from serving.domain.items.records import TenantName

BURST_S = 1.0
"""A bucket holds the calls of this time, one at least."""


class TokenBuckets:
    """The buckets of all tenants."""

    def __init__(
        self, per_second: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._clock = clock
        self._full_at: OrderedDict[TenantName, float] = OrderedDict()
        """When the buckets that are not full will be; the one that was used last at the end."""

    def __len__(self) -> int:
        """The number of buckets that are not full."""
        return len(self._full_at)

    def take(self, tenant: TenantName) -> None:
        """Takes a token; raises `RateLimitedError` with when there will be one."""
        if wait_s := self._wait_s(tenant):
            rate = f"the tenant's rate of {self._per_second:g} calls per second"
            raise RateLimitedError(rate, math.ceil(wait_s * 1000) / 1000)
        self.reserve(tenant)

    def reserve(self, tenant: TenantName) -> float:
        """Takes a token that there may not be yet; returns the seconds until there is."""
        if self._per_second is None:
            return 0.0
        wait_s, now = self._wait_s(tenant), self._clock()
        self._full_at[tenant] = max(now, self._full_at.get(tenant, now)) + 1 / self._per_second
        self._full_at.move_to_end(tenant)
        while next(iter(self._full_at.values())) <= now:
            self._full_at.popitem(last=False)
        return wait_s

    def _wait_s(self, tenant: TenantName) -> float:
        if self._per_second is None:
            return 0.0
        until_full_s = self._full_at.get(tenant, 0.0) - self._clock()
        return max(0.0, round(until_full_s - max(0.0, BURST_S - 1 / self._per_second), 6))
