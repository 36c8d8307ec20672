"""The command `python -m bench.speed.faults`: lets stores fail under a steady load."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import cycle
from pathlib import Path

import click
from rich.console import Console

from bench.harness.collection import Collection, read_collection
from bench.harness.connections import MAX_CONNECTIONS, connected
from bench.harness.load import silent
from bench.harness.results import RESULTS
from bench.harness.sample import TENANTS, multiplied_sample
from bench.harness.service import fresh_data, started
from bench.harness.writing import store
from bench.reports.recording import recorded
from bench.speed.faults.dependencies import Dependency, Fault, stores
from bench.speed.faults.experiment import Timing, observe
from bench.speed.faults.figures import result_of, summary
from bench.speed.faults.picture import save_picture
from bench.speed.overload.steps import Take, capacity, recovery
from serving.domain.errors import TriviumError as ServiceError

BUDGET_S = 0.1
SHARE = 0.5
"""Of the capacity, which is measured first."""

CAPACITY_CALLS = 1000

console = Console(stderr=True)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="An evaluation set; without, the sample conversation multiplied.",
)
@click.option("--dependency", "names", multiple=True, help="Only this one: postgres, neo4j.")
@click.option(
    "--fault",
    "faults",
    type=click.Choice([each.value for each in Fault]),
    multiple=True,
    help="Only this one.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=8.0,
    show_default=True,
    help="How long each fault lasts.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=RESULTS,
    help="Where to make the folder of results.",
)
def main(
    data: Path | None, names: Sequence[str], faults: Sequence[str], seconds: float, out: Path
) -> None:
    """Let each store fail in each way under half the capacity; write JSON, a summary, a picture."""
    collection = multiplied_sample(TENANTS) if data is None else read_collection(data)
    chosen = [Fault(each) for each in faults] or list(Fault)
    timing = Timing(before_s=3.0, during_s=seconds, after_s=12.0)
    with recorded("faults", collection, out, summary, save_picture) as take:
        try:
            asyncio.run(_measure(collection, set(names), chosen, timing, take))
        except ServiceError as error:
            raise click.ClickException(str(error)) from error


async def _measure(
    collection: Collection, names: set[str], faults: Sequence[Fault], timing: Timing, take: Take
) -> None:
    console.print("starting PostgreSQL, Neo4j and the service")
    with fresh_data() as folder:
        async with stores(folder) as (dependencies, settings), started(folder, settings) as service:
            async with connected(service.address, 1) as connections:
                await store(connections, collection)
            chosen = [each for each in dependencies if not names or each.name in names]
            await _observe_all(service.address, collection, chosen, faults, timing, take)


async def _observe_all(
    address: str,
    collection: Collection,
    dependencies: Sequence[Dependency],
    faults: Sequence[Fault],
    timing: Timing,
    take: Take,
) -> None:
    queries = cycle(collection.queries)
    async with connected(address, MAX_CONNECTIONS) as connections:
        reached = await capacity(connections, queries, CAPACITY_CALLS, CAPACITY_CALLS)
        rate_per_s = SHARE * reached.throughput_per_s
        ask = partial(connections.ask, timeout=BUDGET_S)
        for dependency in dependencies:
            for fault in faults:
                console.print(f"{dependency.name} {fault.value}")
                await recovery(ask, queries, BUDGET_S)
                observed = await observe(
                    dependency, fault, ask, queries, rate_per_s, timing, silent
                )
                take(result_of(observed, BUDGET_S, rate_per_s))


if __name__ == "__main__":
    main()
