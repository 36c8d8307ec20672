"""Runs the scenarios in an order in which none disturbs the next."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
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
from bench.harness.cpu import CpuMeter, CpuUse, per_request
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
from bench.harness.results import Json, Result
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

IDLE_S = 15.0

Take = Callable[[Result], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure, with what.

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
    seconds = round(target.healthy_after_s or 0.0, 2)
    return Result(
        scenario="healthy after", parameters={"start": start}, n=1, measured={"seconds": seconds}
    )


class Suite:
    """The scenarios against one running service."""

    def __init__(self, plan: Plan, target: Target, take: Take) -> None:
        self._plan = plan
        self._collection = plan.collection
        self._target = target
        self._take = take
        self._meter = CpuMeter(None if target.pid is None else ServiceProcesses(target.pid))
        self._idle: CpuUse | None = None
        self._queries = list(repeated(plan.collection.queries, plan.min_calls))

    async def run(self) -> None:
        """Runs them all; the data is written before anything is asked."""
        async with connected(self._target.address, 1) as connections:
            await self._write(connections)
            if "load" in self._plan.scenarios:
                await self._load()

    # ---------------------------------------------------------------- writing

    async def _write(self, connections: Connections) -> None:
        measured = "ingest" in self._plan.scenarios
        if measured:
            memories = self._collection.memories.values()
            segments = max((memory.segments for memory in memories), key=len)
            self._take(await ingest.measure_singles(connections, segments))
        console.print("writing the collection")
        since = time.perf_counter()
        loader = BatchLoader(connections)
        results = await loader.load(self._collection)
        projected = await measure_projection(connections, self._collection, loader.tokens, since)
        if measured:
            for result in [*results, projected, *await ingest.measure_visibility(connections)]:
                self._take(result)

    # ---------------------------------------------------------------- load

    async def _load(self) -> None:
        self._idle = await self._meter.idle(IDLE_S)
        reached_per_s = 0.0
        async with connected(self._target.address, 1) as connections:
            await self._unmeasured(connections, CALLERS[1], WARM_UP_ROUNDS * self._plan.min_calls)
        for callers in CALLERS:
            async with connected(self._target.address, connections_for(callers)) as connections:
                await self._unmeasured(connections, callers, SETTLING_CALLS)
                reached_per_s = await self._closed_loop(connections, callers)
        async with connected(self._target.address, MAX_CONNECTIONS) as connections:
            for share in OPEN_SHARES:
                await self._open_loop(connections, round(share * reached_per_s, 1), share)

    async def _unmeasured(self, connections: Connections, callers: int, calls: int) -> None:
        queries = islice(repeated(self._collection.queries, calls), calls)
        await closed_loop(connections.ask, queries, callers)

    async def _closed_loop(self, connections: Connections, callers: int) -> float:
        console.print(f"load, {callers} callers")
        run, use = await self._meter.over(closed_loop(connections.ask, self._queries, callers))
        self._take(self._load_result({"loop": "closed", "callers": callers}, run, use))
        return run.throughput_per_s

    async def _open_loop(self, connections: Connections, rate_per_s: float, share: float) -> None:
        console.print(f"load, {rate_per_s:.0f} per second")
        arrivals = poisson_arrivals(rate_per_s, len(self._queries))
        run, use = await self._meter.over(open_loop(connections.ask, self._queries, arrivals))
        parameters: dict[str, Json] = {"loop": "open", "share": share, "rate_per_s": rate_per_s}
        self._take(self._load_result(parameters, run, use))

    def _load_result(
        self, parameters: dict[str, Json], run: Run[Retrieval], use: CpuUse | None
    ) -> Result:
        return load_result(
            {**parameters, "limit": LIMIT},
            run,
            cpu=None if use is None else per_request(use, self._idle, len(run.calls)),
            curve_ms=curve_ms([seconds for seconds, _ in run.answered]),
        )
