"""Loads a service at shares of its capacity, and a tenant while another floods the service."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import count, cycle, islice

from bench.harness.collection import Query
from bench.harness.connections import CALL_TIMEOUT_S, MAX_CONNECTIONS, Connections, connected
from bench.harness.latency import percentile
from bench.harness.load import Ask, Run, closed_loop, meanwhile, open_loop, poisson_arrivals
from bench.harness.results import Result, Take
from bench.speed.ingest import LEGS, mark_of, until_visible
from bench.speed.overload.figures import CAPACITY, NEIGHBOUR, WRITES, is_whole_in_time, result_of
from trivium.aio import AsyncClient
from trivium.errors import OverloadedError
from trivium.values import Item, Retrieval, Segment

CAPACITY_CALLERS = 32
CALM_ANSWERS = 5
"""The number of consecutive whole answers in time that ends an overload."""

MAX_RECOVERY_S = 10.0
NEIGHBOUR_SHARE = 0.1
"""Of the capacity, what a tenant offers while another floods the service."""

BATCH = 64
WRITE_TIMEOUT_S = 30.0
MIN_DELAY = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The load to offer.

    Attributes:
        queries: At least one; asked in turn, again and again.
        capacity_calls: In a closed loop, to measure the capacity, after as many to warm up.
        budgets_s: What callers give each call.
        seconds: How long each load lasts.
        shares: Of the capacity.
        writers: How many batches a tenant writes at a time that floods the service with writes.
    """

    queries: Sequence[Query]
    capacity_calls: int
    budgets_s: Sequence[float]
    seconds: float
    shares: Sequence[float] = (0.5, 1, 1.5, 2, 3)
    writers: int = 8


async def measure(address: str, plan: Plan, take: Take) -> None:
    """Measures the capacity, each share of it with each budget, and a tenant during a flood."""
    queries = cycle(plan.queries)
    async with connected(address, MAX_CONNECTIONS) as connections:
        reached = await capacity(connections, queries, plan.capacity_calls)
        take(
            Result(
                scenario=CAPACITY,
                parameters={"callers": CAPACITY_CALLERS},
                n=len(reached.calls),
                throughput_per_s=reached.throughput_per_s,
                latency=reached.latency,
                errors=reached.errors,
            )
        )
        capacity_per_s = reached.throughput_per_s
        for budget_s in plan.budgets_s:
            offered = Offered(connections, capacity_per_s, budget_s, plan.seconds)
            await recovery(offered.ask, queries, budget_s)
            for share in plan.shares:
                take(await offered.load(queries, share))
            tenants = _queries_of_two(plan.queries)
            for flood in (0.0, max(plan.shares)) if len(tenants) == 2 else ():
                take(await offered.during_a_flood(tenants[0], tenants[1], flood))
        # At the end, since what was written is projected for a while.
        offered = Offered(connections, capacity_per_s, max(plan.budgets_s), plan.seconds)
        for writers in (0, plan.writers):
            take(await offered.during_writes(queries, writers))


@dataclass(frozen=True, slots=True)
class Offered:
    """Open loops at shares of a capacity, with one budget, each of `duration_s` seconds."""

    connections: Connections
    capacity_per_s: float
    budget_s: float
    seconds: float

    async def ask(self, query: Query) -> Retrieval:
        """Asks within the budget."""
        return await self.connections.ask(query, timeout=self.budget_s)

    async def load(self, queries: cycle[Query], share: float) -> Result:
        """Offers a share, and waits until the service has recovered."""
        arrivals = self._arrivals(share)
        started = time.perf_counter()
        run = await open_loop(self.ask, queries, arrivals)
        since = started + arrivals[-1]
        recovery_s = await recovery(self.ask, queries, self.budget_s, since=since)
        return self._result(run, share, share, arrivals, recovery_s)

    async def during_a_flood(
        self, queries: cycle[Query], others: cycle[Query], flood: float
    ) -> Result:
        """Offers a tenth for one tenant, and `flood` times the capacity for another."""
        arrivals = self._arrivals(NEIGHBOUR_SHARE)
        run, _ = await asyncio.gather(
            open_loop(self.ask, queries, arrivals),
            open_loop(self.ask, others, self._arrivals(flood, seed=1) if flood else []),
        )
        result = self._result(run, flood, NEIGHBOUR_SHARE, arrivals)
        return replace(result, scenario=NEIGHBOUR)

    async def during_writes(self, queries: cycle[Query], writers: int) -> Result:
        """Offers a tenth for one tenant while another one writes as much as it can.

        A third one writes an item now and then, and asks each leg for it until it is found.
        """
        arrivals = self._arrivals(NEIGHBOUR_SHARE)
        written: Counter[str] = Counter()
        visible_s: list[float] = []
        flood = self.connections.client("bench-flood")
        mark = self.connections.client(f"bench-mark-{writers}")
        others = [_write_on(flood, writer, written) for writer in range(writers)]
        async with meanwhile(*others, _look_on(mark, visible_s)):
            run = await open_loop(self.ask, queries, arrivals)
        result = self._result(run, float(writers), NEIGHBOUR_SHARE, arrivals)
        seen = sorted(visible_s)
        return replace(
            result,
            scenario=WRITES,
            measured={
                **result.measured,
                "written_per_s": round(written["written"] / arrivals[-1], 1),
                "batches_refused": written["refused"],
                "visible_p50_s": round(percentile(seen, 0.5), 3) if seen else None,
                "visible_p95_s": round(percentile(seen, 0.95), 3) if seen else None,
            },
        )

    def _arrivals(self, share: float, seed: int = 0) -> list[float]:
        rate_per_s = share * self.capacity_per_s
        return poisson_arrivals(rate_per_s, max(1, round(rate_per_s * self.seconds)), seed)

    def _result(
        self,
        run: Run[Retrieval],
        name: float,
        share: float,
        arrivals: Sequence[float],
        recovery_s: float | None = None,
    ) -> Result:
        return result_of(
            run,
            share=name,
            rate_per_s=share * self.capacity_per_s,
            budget_s=self.budget_s,
            offered_s=arrivals[-1],
            recovery_s=recovery_s,
        )


async def recovery(
    ask: Ask[Query, Retrieval],
    queries: cycle[Query],
    budget_s: float,
    *,
    since: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> float | None:
    """Asks one question after the other until a few answers in a row are whole and in time.

    Returns:
        The seconds until the first of these was asked; None if none were within ten seconds.
    """
    since = clock() if since is None else since
    calm, first = 0, since
    while calm < CALM_ANSWERS:
        asked = clock()
        if asked - since > MAX_RECOVERY_S:
            return None
        run = await closed_loop(ask, islice(queries, 1), 1)
        if not is_whole_in_time(run.calls[0], budget_s):
            calm = 0
            continue
        first = asked if calm == 0 else first
        calm += 1
    return max(0.0, first - since)


async def capacity(
    connections: Connections, queries: Iterator[Query], calls: int
) -> Run[Retrieval]:
    """Asks in a closed loop, first to warm up; returns the run after that."""
    ask = partial(connections.ask, timeout=CALL_TIMEOUT_S)
    await closed_loop(ask, islice(queries, calls), CAPACITY_CALLERS)
    return await closed_loop(ask, islice(queries, calls), CAPACITY_CALLERS)


def _queries_of_two(queries: Sequence[Query]) -> Sequence[cycle[Query]]:
    """The queries of the first two tenants, each again and again; fewer if there are fewer."""
    by_tenant: dict[str, list[Query]] = {}
    for query in queries:
        by_tenant.setdefault(query.tenant, []).append(query)
    return [cycle(each) for each in list(by_tenant.values())[:2]]


# ---------------------------------------------------------------- writers


async def _write_on(client: AsyncClient, writer: int, written: Counter[str]) -> None:
    for number in count():
        batch = [
            Segment(
                id=f"{writer}-{number}-{place}",
                speaker="Mara",
                text=f"Shipment {number} of {place} crates from Porto reached Writer{writer} late.",
            )
            for place in range(BATCH)
        ]
        written["refused"] += await _write(client, batch)
        written["written"] += BATCH


async def _write(client: AsyncClient, items: Sequence[Item]) -> int:
    """Writes items, again and again until that is not refused; returns how often it was."""
    refused = 0
    while True:
        try:
            await client.ingest(items, timeout=WRITE_TIMEOUT_S)
        except OverloadedError as error:
            refused += 1
            await asyncio.sleep((error.retry_delay or MIN_DELAY).total_seconds())
        else:
            return refused


async def _look_on(client: AsyncClient, visible_s: list[float]) -> None:
    for number in count():
        mark = mark_of(number)
        await _write(client, mark)
        written_at = time.perf_counter()
        found = await asyncio.gather(
            *(until_visible(client, leg, mark, "", written_at) for leg in LEGS)
        )
        visible_s.append(max(each if each is not None else float("inf") for each in found))
