"""Decides on arrival what is done of a query: all of it, all but optional work, or nothing.

By Little's law, a service with `n` queries in flight answers one more after `(n + 1) * s`, where
the service time `s` is a query's seconds divided by the queries that were answered with it. So the
limit of concurrency follows from the caller's own budget, `TARGET_UTILISATION * budget / s`, and
adapts as those of Netflix's concurrency-limits do. No query waits: a late one would be useless.

Calls that gRPC has accepted and no method has begun count as in flight, or they would be begun when
most of their budget is gone: a queue has to be emptied before what arrives has its time (CoDel).
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from serving.domain.budget import MIN_ANSWER_S, Deadline
from serving.domain.errors import BudgetExhaustedError, OverloadedError, TooSlowError
from serving.domain.items.records import TenantName
from serving.domain.ranking.profile import Profile
from serving.domain.token_buckets import TokenBuckets

RERANK = "rerank"
SHED_REASON = "shed, as the service is busy"

Work: TypeAlias = frozenset[str]
"""Legs, or `RERANK`."""

NOTHING: Work = frozenset()

TARGET_UTILISATION = 0.7
"""The part of its budget that a query may take on average, by prediction."""

MIN_CONCURRENCY = 2
"""Admitted at once whatever their budgets, so that an idle replica measures what queries take."""

IDLE_TENANT_RESERVE = 0.25
"""The part of the capacity that is kept for tenants without a query in flight."""

RESERVE_KEPT_S = 1.0
"""Tenants that called within this time share the reserve. What one does not take is kept for it as
long, since callers do not come at regular intervals."""

EWMA_DECAY = 0.95
"""The weight of the past in a service time at each sample: about the last twenty count."""

INITIAL_SERVICE_TIMES_S = (0.010, 0.0, 0.0)
"""Of a whole query, one without reranking, and one without sheddable legs; 0 is not measured."""

MIN_SAVING = 0.75
"""A service time that is not measured, as a part of that with more work."""

MAX_OUTLIER = 4.0
"""A sample counts at most this multiple of the mean: one slow query does not close a service."""

MIN_FRESHNESS = 0.25
"""The least weight of an old service time: the first queries after a pause may be many."""

WITHDRAWN = 0.5
"""A query cancelled with more than this part of its budget left was withdrawn, and not late."""

RECENT_TENANT_S = 60.0
"""A tenant that called within this time has a share: as long as a caller may think."""

MIN_RETRY_S = 0.010
MAX_RETRY_S = 1.0


@dataclass(slots=True)
class _ServiceTime:
    """An EWMA. It halves each second without a sample, so what was too slow is tried again."""

    mean_s: float
    sampled_at: float

    def estimate_s(self, now: float) -> float:
        return self.mean_s * max(MIN_FRESHNESS, self._freshness(now))

    def add(self, sample_s: float, now: float) -> None:
        weight = EWMA_DECAY * self._freshness(now)
        self.mean_s = self.mean_s or sample_s
        self.mean_s += (1 - weight) * (min(sample_s, MAX_OUTLIER * self.mean_s) - self.mean_s)
        self.sampled_at = now

    def _freshness(self, now: float) -> float:
        return float(0.5 ** max(0.0, now - self.sampled_at - 1.0))


@dataclass(slots=True)
class _Tenant:
    called_at: float = 0.0
    in_flight: int = 0
    next_reserved_at: float = 0.0


class Admission:
    """The queries of a replica, at most `max_concurrency` at once.

    The legs `sheddable` are shed after reranking; `pending` counts calls that no method has begun.
    """

    def __init__(
        self,
        max_concurrency: int = 48,
        *,
        sheddable: Work = NOTHING,
        pending: Callable[[], int] = int,
        rates: TokenBuckets | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_concurrency = max_concurrency
        self._sheddable = sheddable
        self._pending = pending
        self._rates = TokenBuckets() if rates is None else rates
        self._clock = clock
        self._in_flight = 0
        self._tenants: OrderedDict[TenantName, _Tenant] = OrderedDict()
        self._service_times = [_ServiceTime(each, clock()) for each in INITIAL_SERVICE_TIMES_S]

    @contextmanager
    def admitted(
        self, tenant: TenantName, profile: Profile, deadline: Deadline, required: Work = NOTHING
    ) -> Iterator[Work]:
        """Counts a query while it is answered; yields what is shed of it, nothing `required`.

        Raises:
            TooSlowError: It would be late on an idle service too.
            OverloadedError: It would be late, or its tenant has its share of a busy service.
            RateLimitedError: The tenant calls more often than it may.
        """
        self._rates.take(tenant)
        budget_s = deadline.remaining()
        if budget_s < MIN_ANSWER_S:
            raise TooSlowError(MIN_ANSWER_S, budget_s)
        caller = self._caller(tenant)
        level, shed = self._shed(caller, profile, budget_s, required)
        self._in_flight += 1
        caller.in_flight += 1
        started, before, seconds = self._clock(), self._in_flight, 0.0
        try:
            yield shed
            seconds = self._clock() - started
        except (BudgetExhaustedError, asyncio.CancelledError):
            # A late query had waited for its whole budget, if not here then before it was seen.
            seconds = budget_s if deadline.remaining() <= WITHDRAWN * budget_s else 0.0
            raise
        finally:
            concurrent = (before + self._in_flight) / 2
            self._in_flight -= 1
            caller.in_flight -= 1
            if seconds:
                self._service_times[level].add(seconds / concurrent, self._clock())

    def _caller(self, name: TenantName) -> _Tenant:
        """Records that a tenant calls, and forgets those that did not lately."""
        caller = self._tenants.setdefault(name, _Tenant())
        caller.called_at = now = self._clock()
        self._tenants.move_to_end(name)
        while True:
            oldest = next(iter(self._tenants.values()))
            if oldest.in_flight or oldest.called_at >= now - RECENT_TENANT_S:
                return caller
            self._tenants.popitem(last=False)

    def _calling_since(self, time_s: float) -> int:
        """The number of tenants that called since that time."""
        latest = reversed(self._tenants.values())
        return sum(1 for _ in takewhile(lambda each: each.called_at >= time_s, latest))

    def _shed(
        self, caller: _Tenant, profile: Profile, budget_s: float, required: Work
    ) -> tuple[int, Work]:
        """Returns how much is shed of a query, and what of it the profile has."""
        pending, now = self._pending(), self._clock()
        concurrency, service_s = self._in_flight + 1, 0.0
        if concurrency + pending <= MIN_CONCURRENCY:
            return 0, NOTHING
        for level, shed in _levels(profile, self._sheddable, required):
            service_s = self._service_times[level].estimate_s(now) or MIN_SAVING * service_s
            in_time = TARGET_UTILISATION * budget_s / service_s
            limit = min(self._max_concurrency, in_time - pending)
            if caller.in_flight + 1 > max(1.0, limit / len(self._tenants)):
                limit /= 2  # the rest is for tenants that have less than their share
            if concurrency <= limit:
                return level, shed
        # Pending calls of one tenant must not keep out those that have nothing in flight.
        is_reserved = not caller.in_flight and now >= caller.next_reserved_at
        if is_reserved and concurrency <= min(self._max_concurrency, in_time):
            unused_since = max(caller.next_reserved_at, now - RESERVE_KEPT_S)
            interval_s = self._calling_since(now - RESERVE_KEPT_S) * service_s / IDLE_TENANT_RESERVE
            caller.next_reserved_at = unused_since + interval_s
            return level, shed
        retry_s = min(max((concurrency + pending - limit) * service_s, MIN_RETRY_S), MAX_RETRY_S)
        raise OverloadedError("the service", round(retry_s, 3))


def _levels(profile: Profile, sheddable: Work, required: Work) -> Iterator[tuple[int, Work]]:
    """Yields what may be shed of a profile: nothing, reranking, legs."""
    yield 0, NOTHING
    shed, legs = NOTHING, {leg.name for leg in profile.legs if leg.weight} & sheddable
    for level, work in enumerate(({RERANK} if profile.rerank else set(), legs), start=1):
        shed |= work
        if shed & required:
            return
        if work:
            yield level, shed
