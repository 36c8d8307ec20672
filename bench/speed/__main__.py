"""The command `python -m bench.speed`: starts, writes and load, none of which disturbs the next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import click

from bench.harness import options
from bench.harness.collection import Collection
from bench.harness.connections import (
    LIMIT,
    MAX_CONNECTIONS,
    Connections,
    connected,
    connections_for,
)
from bench.harness.load import (
    Run,
    closed_loop,
    load_result,
    open_loop,
    poisson_arrivals,
    repeated,
)
from bench.harness.processes import ServiceProcesses, cpu_over
from bench.harness.results import Json, Result, Take, curve_ms
from bench.harness.service import Target, fresh_data, started
from bench.harness.writing import BatchLoader, measure_projection
from bench.reports.plots import save_picture
from bench.reports.recording import console, recorded
from bench.reports.report import summary
from bench.speed import ingest
from trivium.values import Retrieval

SCENARIOS = ("start", "ingest", "load")
CALLERS = (1, 8, 32)
OPEN_SHARES = (0.5, 0.8)
"""Rates of the open loop, as shares of what the closed loop reached with the most callers."""

WARM_UP_ROUNDS = 10
"""Of calls before anything is measured: Neo4j's JVM compiles what it runs thousands of times."""

SETTLING_CALLS = 100
"""Before each loop, for its connections."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The measurements to make, and their data, which is written whichever they are.

    Each loop has at least `min_calls` questions, going round.
    """

    collection: Collection
    scenarios: Sequence[str]
    min_calls: int


def _scenarios(_context: click.Context, _option: click.Parameter, given: str) -> Sequence[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    unknown = sorted(set(names) - set(SCENARIOS))
    if unknown:
        raise click.BadParameter(f"no scenario {unknown[0]!r}; there are {', '.join(SCENARIOS)}")
    return names or SCENARIOS


@click.command(context_settings=options.HELP)
@options.data
@click.option(
    "--only",
    default="",
    callback=_scenarios,
    help=f"Scenarios by comma, of {', '.join(SCENARIOS)}; without, all.",
)
@options.count("--calls", 1000, "The minimum number of questions of each loop, going round.")
@options.out
def main(data: Path | None, only: Sequence[str], calls: int, out: Path) -> None:
    """Measure the service, and write JSON, a summary and a picture."""
    collection = options.chosen(data)
    for problem in collection.problems[:10]:
        console.print(f"left out: {problem}", style="yellow")
    with recorded("speed", collection, out, summary, save_picture) as take:
        asyncio.run(_measure(Plan(collection, only, calls), take))


async def _measure(plan: Plan, take: Take) -> None:
    console.print("starting the service")
    async with _service(plan, take) as target:
        async with connected(target.address, 1) as connections:
            await _write(plan, connections, take)
        if "load" in plan.scenarios:
            await _load(plan, target, take)
        console.print("stopping the service")


@asynccontextmanager
async def _service(plan: Plan, take: Take) -> AsyncIterator[Target]:
    """Starts the service on fresh data; twice if the start is to be measured.

    The first start creates the databases; the second is the usual one.
    """

    def take_start(name: str, target: Target) -> None:
        if "start" in plan.scenarios:
            seconds: dict[str, Json] = {"seconds": round(target.healthy_after_s, 2)}
            take(
                Result(scenario="healthy after", parameters={"start": name}, n=1, measured=seconds)
            )

    with fresh_data() as data_dir:
        if "start" in plan.scenarios:
            async with started(data_dir) as target:
                take_start("first", target)
        async with started(data_dir) as target:
            take_start("second", target)
            yield target


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
        run, use = await cpu_over(processes.cpu, loop)
        cpu = use.per_request(len(run.calls))
        curve = curve_ms(seconds for seconds, _ in run.answered)
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


if __name__ == "__main__":
    main()
