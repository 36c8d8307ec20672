"""Admits a question only if it can be answered in time, and sheds optional work before it refuses.

By Little's law, a service that is busy with `n` questions answers one more after about `(n + 1) *
cost`, where `cost` is the time that a question took, divided by the number of questions that were
answered with it. So the limit follows from the caller's own budget: `budget / cost` questions, and
more of a long budget than of a short one. It adapts as TCP Vegas and Netflix's gradient limit do: a
limit at which questions take longer than the budget makes the next one lower, by the same factor.
Nothing waits here: a question that would be late is refused on arrival.

Calls are handed over one at a time, in the order of their arrival, and those that wait behind a
question count as if they were being answered. If they did not, calls above capacity would be handed
over when most of their budget is gone, and be admitted too late: a queue has to be emptied before
what arrives has its time (as in CoDel, RFC 8289).

Half of the limit is for anyone. In the other half no tenant has more than its share of the limit,
which is divided by their weights among those that asked lately: one that floods the service leaves
room for others.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from serving.domain.budget import Deadline
from serving.domain.errors import BudgetExhaustedError, OverloadedError
from serving.domain.items.records import TenantName
from serving.domain.ranking.profile import Profile
from serving.domain.token_buckets import TokenBuckets
from serving.pipeline.retrieval.legs import GRAPH, RELATED

RERANK = "rerank"
SHED_ORDER = (RERANK, RELATED, GRAPH)
"""What is shed, in this order; the legs of words and of meaning are never shed."""

SHED_REASON = "shed, as the service is busy"
MOST_CONCURRENT = 48
LEAST_CONCURRENT = 2
"""So many are always admitted while no call is pending, whatever their budget: an idle service
answers from the legs that are in time, and learns the cost from that."""

KEPT = 0.25
"""The part of the capacity that is kept for tenants with no question in flight, if they have the
time, however many calls are pending. Otherwise one whose callers call again as soon as they are
refused would keep the queue full, and everyone out. The rest suffices to empty the queue."""

FILL = 0.7
"""The part of the budget that the mean time may fill, so that most of the slower ones fit too."""

MEMORY = 0.95
"""The weight of the questions before, at each new one: about the last twenty count."""

OUTLIER = 4.0
"""A question counts with at most so many times its predicted time."""

LEAST_SAVING = 0.75
"""The cost with less work, until it is measured, as a part of the cost with more."""

FIRST_COST_S = 0.010
"""The cost before anything was measured."""

TRUSTED_S = 1.0
LEAST_TRUST = 0.25
"""A cost that was not measured for `TRUSTED_S` is halved, and halved again after as long, so that
what was too slow is tried again. It stays above `LEAST_TRUST` of what it was: the first questions
after a pause may be many."""

LEAST_COST_S = 0.00001

WITHDRAWN = 0.5
"""A question that is cancelled while more than this part of its budget is left was withdrawn, as
by a caller who is interrupted, or says more. One that was late had waited before it was seen."""

FOR_ANYONE = 0.5
"""The part of what can be answered in time up to which tenants are not told apart."""

SLOTS_FOR_ANYONE = 0.75
"""The same part of the most questions at once, whatever their budgets."""

LATELY_S = 60.0
"""A tenant that asked within this time has a share: as long as a caller may think."""

LEAST_RETRY_S = 0.010
MOST_RETRY_S = 1.0

NOTHING: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Cost:
    """The seconds of a question by each that was answered with it, as a decaying mean."""

    seconds: float = 0.0
    questions: float = 0.0
    measured_at: float = 0.0

    def value(self, now: float) -> float | None:
        """None if nothing was measured."""
        if not self.questions:
            return None
        return self.seconds / self.questions * max(LEAST_TRUST, self._trust(now))

    def take(self, seconds: float, concurrent: float, now: float) -> None:
        """Counts a question that was answered with so many at once, itself included."""
        if self.questions:
            seconds = min(seconds, OUTLIER * concurrent * self.seconds / self.questions)
        memory = MEMORY * self._trust(now)
        self.seconds = memory * self.seconds + seconds
        self.questions = memory * self.questions + concurrent
        self.measured_at = now

    def _trust(self, now: float) -> float:
        return float(0.5 ** (max(0.0, now - self.measured_at - TRUSTED_S) / TRUSTED_S))


@dataclass(slots=True)
class _Tenant:
    asked_at: float
    weight: float
    in_flight: int = 0


class _Shares:
    """The tenants that asked lately, the least recent first, and their questions in flight."""

    def __init__(self, weights: Mapping[TenantName, float]) -> None:
        self._weights = weights
        self._tenants: OrderedDict[TenantName, _Tenant] = OrderedDict()
        self._weight = 0.0

    def asked(self, name: TenantName, now: float) -> _Tenant:
        """Records that a tenant asks, and forgets those that did not lately."""
        tenant = self._tenants.get(name)
        if tenant is None:
            tenant = self._tenants[name] = _Tenant(now, self._weights.get(name, 1.0))
            self._weight += tenant.weight
        tenant.asked_at = now
        self._tenants.move_to_end(name)
        while (oldest := next(iter(self._tenants.values()))).asked_at < now - LATELY_S:
            if oldest.in_flight:
                break
            self._tenants.popitem(last=False)
            self._weight -= oldest.weight
        return tenant

    def of(self, tenant: _Tenant) -> float:
        """Returns the share of one of them, which asked."""
        return tenant.weight / self._weight


class Admission:
    """Decides on arrival what of a question is done, if anything.

    Args:
        most: The most questions at once, whatever their budgets.
        clock: In seconds.
        weights: By tenant; 1 for the others.
        pending: Returns the number of calls that wait to be handed over.
        rates: How often tenants may ask.
    """

    def __init__(
        self,
        most: int = MOST_CONCURRENT,
        clock: Callable[[], float] = time.monotonic,
        weights: Mapping[TenantName, float] = MappingProxyType({}),
        pending: Callable[[], int] = int,
        rates: TokenBuckets | None = None,
    ) -> None:
        self._most = most
        self._rates = TokenBuckets() if rates is None else rates
        self._pending = pending
        self._clock = clock
        self._in_flight = 0
        self._next_kept_at = 0.0
        self._shares = _Shares(weights)
        self._costs = {0: _Cost(FIRST_COST_S, 1.0, clock())}
        """By the number of the things of `SHED_ORDER` that are shed."""

    @contextmanager
    def admitted(
        self,
        tenant: TenantName,
        profile: Profile,
        deadline: Deadline,
        required: frozenset[str] = NOTHING,
    ) -> Iterator[frozenset[str]]:
        """Counts a question while it is answered; yields what of `SHED_ORDER` it does without.

        What is `required` is not among it.

        Raises:
            OverloadedError: It cannot be answered before the deadline, or the service is busy and
                the tenant has its share of it.
            RateLimitedError: The tenant asks more often than it may.
        """
        self._rates.take(tenant)
        budget_s = deadline.remaining()
        if not budget_s:
            # It waited for longer than that before it was seen.
            raise OverloadedError("the service", LEAST_RETRY_S)
        started = self._clock()
        asking = self._shares.asked(tenant, started)
        level, shed = self._level(profile, budget_s, required, asking)
        before = self._in_flight + 1
        self._in_flight = before
        asking.in_flight += 1
        seconds: float | None = None
        try:
            yield shed
            seconds = self._clock() - started
        except (BudgetExhaustedError, asyncio.CancelledError) as error:
            # Its caller gave up, and had waited for the whole budget. If not here, then before:
            # the time that a call waits for the event loop is not always known.
            withdrawn = deadline.remaining() > WITHDRAWN * budget_s
            if not (withdrawn and isinstance(error, asyncio.CancelledError)):
                seconds = budget_s
            raise
        finally:
            now, concurrent = self._clock(), (before + self._in_flight) / 2
            self._in_flight -= 1
            asking.in_flight -= 1
            if seconds is not None:
                self._costs.setdefault(level, _Cost()).take(seconds, concurrent, now)

    def _level(
        self, profile: Profile, left_s: float, required: frozenset[str], asking: _Tenant
    ) -> tuple[int, frozenset[str]]:
        """Returns how much is shed of a tenant's question, and what of it the profile has."""
        pending = self._pending()
        if self._in_flight + pending < LEAST_CONCURRENT:
            return 0, NOTHING
        now = self._clock()
        counted = pending if asking.in_flight or now < self._next_kept_at else 0
        concurrent = self._in_flight + 1
        cost = 0.0
        for level, shed in _levels(profile):
            if shed & required:
                break
            cost = self._cost(level, cost)
            in_time = FILL * left_s / max(cost, LEAST_COST_S) - counted
            limit = min(self._most, in_time)
            if asking.in_flight + 1 > max(1.0, limit * self._shares.of(asking)):
                limit = min(SLOTS_FOR_ANYONE * self._most, FOR_ANYONE * in_time)
            if concurrent <= limit:
                if counted < pending:
                    self._next_kept_at = now + cost / KEPT
                return level, shed
        retry_s = max((concurrent + pending) * cost - FILL * left_s, cost)
        raise OverloadedError(
            "the service", round(min(max(retry_s, LEAST_RETRY_S), MOST_RETRY_S), 3)
        )

    def _cost(self, level: int, with_more: float) -> float:
        known = self._costs.get(level)
        measured = None if known is None else known.value(self._clock())
        return LEAST_SAVING * with_more if measured is None else measured


def _levels(profile: Profile) -> Iterator[tuple[int, frozenset[str]]]:
    """Yields what can be shed of a profile, from nothing to all."""
    has = {leg.name for leg in profile.legs if leg.weight}
    if profile.rerank is not None:
        has.add(RERANK)
    yield 0, NOTHING
    for level, name in enumerate(SHED_ORDER, start=1):
        if name in has:
            yield level, frozenset(SHED_ORDER[:level]) & has
