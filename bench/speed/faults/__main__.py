"""The command `python -m bench.speed.faults`: lets stores and replicas fail under a steady load.

The stores fail under a service in the placement `single`, and the replicas of the index and of
the embedder in one in `split`, over the same data.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path

import click

from bench.harness.collection import Collection, Query
from bench.harness.connections import Connections
from bench.harness.load import open_loop, poisson_arrivals
from bench.harness.options import HELP, chosen, data_option, out_option
from bench.harness.results import Take
from bench.reports.recording import console, recorded
from bench.speed.faults.dependencies import Dependency, Fault
from bench.speed.faults.figures import Observed, result_of, save_picture, summary
from bench.speed.faults.placements import in_each_placement
from bench.speed.overload.loads import Offered, capacity, recovery

BUDGET_S = 0.1
SHARE = 0.5
"""Of the capacity, which is measured first."""

CAPACITY_CALLS = 1000
BEFORE_S, AFTER_S = 3.0, 12.0


@click.command(context_settings=HELP)
@data_option
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=8.0,
    show_default=True,
    help="How long each fault lasts.",
)
@out_option
def main(data: Path | None, seconds: float, out: Path) -> None:
    """Let stores and replicas fail in each way under half the capacity.

    Writes JSON, a summary and a picture.
    """
    collection = chosen(data)
    with recorded("faults", collection, out, summary, save_picture) as take:
        asyncio.run(in_each_placement(collection, partial(_fail_all, collection, seconds, take)))


async def _fail_all(
    collection: Collection,
    seconds: float,
    take: Take,
    connections: Connections,
    dependencies: Sequence[Dependency],
) -> None:
    queries = cycle(collection.queries)
    reached = await capacity(connections, queries, CAPACITY_CALLS)
    offered = Offered(connections, reached.throughput_per_s, BUDGET_S, seconds)
    for dependency in dependencies:
        for fault in Fault:
            if fault in dependency.faults:
                console.print(f"{dependency.name} {fault.value}")
                await recovery(offered.ask, queries, BUDGET_S)
                rate_per_s = SHARE * offered.capacity_per_s
                observed = await observe(dependency, fault, offered, queries, rate_per_s)
                take(result_of(observed, BUDGET_S, rate_per_s))


async def observe(
    dependency: Dependency,
    fault: Fault,
    offered: Offered,
    queries: Iterator[Query],
    rate_per_s: float,
) -> Observed:
    """Asks at a steady rate while a fault begins and ends."""
    total_s = BEFORE_S + offered.seconds + AFTER_S
    arrivals = poisson_arrivals(rate_per_s, max(1, round(rate_per_s * total_s)))
    started_at = time.perf_counter()
    load = asyncio.create_task(open_loop(offered.ask, queries, arrivals))
    try:
        await asyncio.sleep(BEFORE_S)
        began_s = time.perf_counter() - started_at
        try:
            await dependency.begin(fault)
            await asyncio.sleep(offered.seconds)
        finally:
            await dependency.end(fault)
        ended_s = time.perf_counter() - started_at
        run = await load
    finally:
        load.cancel()
    return Observed(
        dependency=dependency.name, fault=fault, run=run, began_s=began_s, ended_s=ended_s
    )


if __name__ == "__main__":
    main()
