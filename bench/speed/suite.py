"""Runs the scenarios in an order in which none disturbs the next."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice

from bench.harness.collection import Collection
from bench.harness.connections import (
    LIMIT,
    MAX_CONNECTIONS,
    Connections,
    connected,
    connections_for,
)
from bench.harness.cpu import cpu_over
from bench.harness.latency import curve_ms
from bench.harness.load import (
    Run,
    closed_loop,
    load_result,
    open_loop,
    poisson_arrivals,
    repeated,
)
from bench.harness.processes import ServiceProcesses
from bench.harness.results import Json, Result, Take
from bench.harness.service import Target, fresh_data, started
from bench.harness.writing import BatchLoader, measure_projection
from bench.reports.recording import console
from bench.speed import ingest
from trivium.values import Retrieval

SCENARIOS = ("start", "ingest", "load")
CALLERS = (1, 8, 32)
OPEN_SHARES = (0.5, 0.8)
"""Rates of the open loop, as shares of what the closed loop reached with the most callers."""

MIN_CALLS = 1000
WARM_UP_ROUNDS = 10
"""Of calls before anything is measured: Neo4j's JVM compiles what it runs thousands of times."""

SETTLING_CALLS = 100
"""Before each loop, for its connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The measurements to make, and their data.

    Args:
        collection: The data.
        scenarios: Of `SCENARIOS`; the data is written whichever they are.
        min_calls: The minimum number of questions of each loop, going round.
    """

    collection: Collection
    scenarios: Sequence[str] = SCENARIOS
    min_calls: int = MIN_CALLS


@asynccontextmanager
async def service(plan: Plan, take: Take) -> AsyncIterator[Target]:
    """Starts the service on fresh data; twice if the start is to be measured.

    The first start creates the databases; the second is the usual one.
    """
    with fresh_data() as data_dir:
        if "start" in plan.scenarios:
            async with started(data_dir) as target:
                take(_healthy_after("first", target))
        async with started(data_dir) as target:
            if "start" in plan.scenarios:
                take(_healthy_after("second", target))
            yield target


def _healthy_after(start: str, target: Target) -> Result:
    seconds = round(target.healthy_after_s, 2)
    return Result(
        scenario="healthy after", parameters={"start": start}, n=1, measured={"seconds": seconds}
    )


async def run(plan: Plan, target: Target, take: Take) -> None:
    """Runs the scenarios; the data is written before anything is asked."""
    async with connected(target.address, 1) as connections:
        await _write(plan, connections, take)
        if "load" in plan.scenarios:
            await _load(plan, target, take)


async def _write(plan: Plan, connections: Connections, take: Take) -> None:
    measured = "ingest" in plan.scenarios
    if measured:
        memories = plan.collection.memories.values()
        segments = max((memory.segments for memory in memories), key=len)
        take(await ingest.measure_singles(connections, segments))
    console.print("writing the collection")
    since = time.perf_counter()
    loader = BatchLoader(connections)
    results = await loader.load(plan.collection)
    projected = await measure_projection(connections, plan.collection, loader.tokens, since)
    if measured:
        for result in [*results, projected, *await ingest.measure_visibility(connections)]:
            take(result)


async def _load(plan: Plan, target: Target, take: Take) -> None:
    processes = ServiceProcesses(target.pid)
    queries = list(repeated(plan.collection.queries, plan.min_calls))

    async def unmeasured(connections: Connections, callers: int, calls: int) -> None:
        asked = islice(repeated(plan.collection.queries, calls), calls)
        await closed_loop(connections.ask, asked, callers)

    async def measured(parameters: dict[str, Json], loop: Awaitable[Run[Retrieval]]) -> float:
        """Returns the answers a second."""
        console.print("load:", ", ".join(f"{name} {value}" for name, value in parameters.items()))
        run, use = await cpu_over(processes, loop)
        cpu = use.per_request(len(run.calls))
        curve = curve_ms([seconds for seconds, _ in run.answered])
        take(load_result({**parameters, "limit": LIMIT}, run, cpu=cpu, curve_ms=curve))
        return run.throughput_per_s

    reached_per_s = 0.0
    async with connected(target.address, 1) as connections:
        await unmeasured(connections, CALLERS[1], WARM_UP_ROUNDS * plan.min_calls)
    for callers in CALLERS:
        async with connected(target.address, connections_for(callers)) as connections:
            await unmeasured(connections, callers, SETTLING_CALLS)
            loop = closed_loop(connections.ask, queries, callers)
            reached_per_s = await measured({"loop": "closed", "callers": callers}, loop)
    async with connected(target.address, MAX_CONNECTIONS) as connections:
        for share in OPEN_SHARES:
            rate_per_s = round(share * reached_per_s, 1)
            arrivals = poisson_arrivals(rate_per_s, len(queries))
            loop = open_loop(connections.ask, queries, arrivals)
            await measured({"loop": "open", "share": share, "rate_per_s": rate_per_s}, loop)
