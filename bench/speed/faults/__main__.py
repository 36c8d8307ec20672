"""The command `python -m bench.speed.faults`: lets stores and replicas fail under a steady load.

The stores fail under a service in the placement `single`, and the replicas of the index and of
the embedder in one in `split`, over the same data.
"""

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
from bench.speed.faults.dependencies import Fault, replicas, stores
from bench.speed.faults.experiment import Faulty, Timing, observe
from bench.speed.faults.figures import result_of, summary
from bench.speed.faults.picture import save_picture
from bench.speed.overload.steps import Take, capacity, recovery
from serving.domain.errors import TriviumError as ServiceError

BUDGET_S = 0.1
SHARE = 0.5
"""Of the capacity, which is measured first."""

CAPACITY_CALLS = 1000

STORES = ("postgres", "neo4j")
REPLICAS = ("index", "embedder")

console = Console(stderr=True)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="An evaluation set; without, the sample conversation multiplied.",
)
@click.option(
    "--dependency",
    "names",
    type=click.Choice([*STORES, *REPLICAS]),
    multiple=True,
    default=[*STORES, *REPLICAS],
    help="Only this one.",
)
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
    """Let stores and replicas fail in each way under half the capacity.

    Writes JSON, a summary and a picture.
    """
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
    console.print("starting PostgreSQL and Neo4j")
    with fresh_data() as folder:
        async with stores(folder) as (of_stores, settings):
            for placement, of_placement in (("single", STORES), ("split", REPLICAS)):
                if names.isdisjoint(of_placement):
                    continue
                console.print(f"starting the service, {placement}")
                placed = {**settings, "TRIVIUM_SERVE__PLACEMENT": placement}
                async with started(folder, placed) as service:
                    assert service.pid is not None, "it was started here; this is a bug"
                    both: list[Faulty] = [*of_stores, *replicas(service.pid)]
                    chosen = [each for each in both if each.name in names & {*of_placement}]
                    async with connected(service.address, 1) as connections:
                        await store(connections, collection)
                    await _observe_all(service.address, collection, chosen, faults, timing, take)


async def _observe_all(
    address: str,
    collection: Collection,
    dependencies: Sequence[Faulty],
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
                if fault not in dependency.faults:
                    continue
                console.print(f"{dependency.name} {fault.value}")
                await recovery(ask, queries, BUDGET_S)
                observed = await observe(
                    dependency, fault, ask, queries, rate_per_s, timing, silent
                )
                take(result_of(observed, BUDGET_S, rate_per_s))


if __name__ == "__main__":
    main()
