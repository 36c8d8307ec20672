"""Loads a service at shares of its capacity, and waits after each until it has recovered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice

from bench.harness.collection import Query
from bench.harness.connections import CALL_TIMEOUT_S, MAX_CONNECTIONS, Connections, connected
from bench.harness.load import Ask, Run, closed_loop, open_loop, poisson_arrivals, silent
from bench.harness.results import Result
from bench.speed.overload.figures import CAPACITY, is_whole_in_time, result_of
from bench.speed.overload.neighbours import beside_a_flood, beside_writes, queries_of_two
from trivium.values import Retrieval

CAPACITY_CALLERS = 32
CALM_ANSWERS = 5
"""So many whole answers in time, one after the other, end an overload."""

MOST_RECOVERY_S = 10.0

Take = Callable[[Result], None]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to offer.

    Args:
        queries: At least one; asked in turn, again and again.
        warm_up_calls: Before the capacity is measured.
        capacity_calls: In a closed loop, to measure the capacity.
        budgets_s: What callers give each call.
        shares: Of the capacity.
        seconds: How long each load lasts.
        writers: How many batches a tenant writes at a time that floods the service with writes;
            0 leaves that part out.
    """

    queries: Sequence[Query]
    warm_up_calls: int
    capacity_calls: int
    budgets_s: Sequence[float]
    shares: Sequence[float]
    seconds: float
    writers: int = 0


async def measure(address: str, plan: Plan, take: Take) -> None:
    """Measures the capacity, and then each share of it with each budget."""
    queries = cycle(plan.queries)
    async with connected(address, MAX_CONNECTIONS) as connections:
        reached = await capacity(connections, queries, plan.warm_up_calls, plan.capacity_calls)
        take(_capacity(reached))
        for budget_s in plan.budgets_s:
            ask = partial(connections.ask, timeout=budget_s)
            await recovery(ask, queries, budget_s)
            for share in plan.shares:
                rate_per_s = share * reached.throughput_per_s
                arrivals = poisson_arrivals(rate_per_s, max(1, round(rate_per_s * plan.seconds)))
                started = time.perf_counter()
                run = await open_loop(ask, queries, arrivals, silent)
                take(
                    result_of(
                        run,
                        share=share,
                        rate_per_s=rate_per_s,
                        budget_s=budget_s,
                        offered_s=arrivals[-1],
                        recovery_s=await recovery(
                            ask, queries, budget_s, since=started + arrivals[-1]
                        ),
                    )
                )
            await _measure_neighbour(connections, plan, reached.throughput_per_s, budget_s, take)
        # At the end, since what was written is projected for a while.
        for writers in (0, plan.writers) if plan.writers else ():
            take(
                await beside_writes(
                    connections,
                    queries,
                    capacity_per_s=reached.throughput_per_s,
                    budget_s=max(plan.budgets_s),
                    writers=writers,
                    seconds=plan.seconds,
                )
            )


async def _measure_neighbour(
    connections: Connections, plan: Plan, capacity_per_s: float, budget_s: float, take: Take
) -> None:
    """Measures a tenant alone, and while another offers the highest load."""
    tenants = queries_of_two(plan.queries)
    if len(tenants) < 2:
        return
    for flood in (0.0, max(plan.shares)):
        take(
            await beside_a_flood(
                connections,
                tenants,
                capacity_per_s=capacity_per_s,
                budget_s=budget_s,
                flood=flood,
                seconds=plan.seconds,
            )
        )


async def recovery(
    ask: Ask[Query, Retrieval],
    queries: cycle[Query],
    budget_s: float,
    *,
    since: float | None = None,
    clock: Clock = time.perf_counter,
) -> float | None:
    """Asks one question after the other until a few answers in a row are whole and in time.

    Returns:
        The seconds until the first of these was asked; None if none were within ten seconds.
    """
    since = clock() if since is None else since
    calm, first = 0, since
    while calm < CALM_ANSWERS:
        asked = clock()
        if asked - since > MOST_RECOVERY_S:
            return None
        run = await closed_loop(ask, islice(queries, 1), 1, silent)
        if not is_whole_in_time(run.calls[0], budget_s):
            calm = 0
            continue
        first = asked if calm == 0 else first
        calm += 1
    return max(0.0, first - since)


async def capacity(
    connections: Connections, queries: Iterator[Query], warm_up_calls: int, calls: int
) -> Run[Retrieval]:
    """Asks in a closed loop, first to warm up; returns the run after that."""
    ask = partial(connections.ask, timeout=CALL_TIMEOUT_S)
    await closed_loop(ask, islice(queries, warm_up_calls), CAPACITY_CALLERS, silent)
    return await closed_loop(ask, islice(queries, calls), CAPACITY_CALLERS, silent)


def _capacity(run: Run[Retrieval]) -> Result:
    return Result(
        scenario=CAPACITY,
        parameters={"callers": CAPACITY_CALLERS},
        n=len(run.calls),
        throughput_per_s=run.throughput_per_s,
        latency=run.latency,
        errors=run.errors,
    )
