"""The command `python -m bench.speed.overload`: loads the service beyond its capacity."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from bench.harness.collection import Collection, read_collection
from bench.harness.connections import connected
from bench.harness.results import RESULTS
from bench.harness.sample import TENANTS, multiplied_sample
from bench.harness.service import running
from bench.harness.writing import store
from bench.reports.recording import recorded
from bench.speed.overload.figures import summary
from bench.speed.overload.picture import save_picture
from bench.speed.overload.steps import Plan, Take, measure

SHARES = "0.5,1,1.5,2,3"
BUDGETS_MS = "50,100,300"


def _numbers(_context: click.Context, _option: click.Parameter, given: str) -> Sequence[float]:
    try:
        found = [float(each) for each in given.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"not numbers separated by commas: {given!r}") from error
    if min(found) <= 0:
        raise click.BadParameter(f"must be above 0: {given!r}")
    return found


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="An evaluation set; without, the sample conversation multiplied.",
)
@click.option(
    "--tenants",
    type=click.IntRange(min=1),
    default=TENANTS,
    show_default=True,
    help="How often the sample conversation is multiplied.",
)
@click.option("--address", help="HOST:PORT of a running service, instead of starting one.")
@click.option(
    "--budgets",
    default=BUDGETS_MS,
    show_default=True,
    callback=_numbers,
    help="What callers give each call, in ms.",
)
@click.option(
    "--shares",
    default=SHARES,
    show_default=True,
    callback=_numbers,
    help="The loads, as multiples of the capacity.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    help="How long each load lasts.",
)
@click.option(
    "--calls",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Calls to measure the capacity, after as many to warm up.",
)
@click.option(
    "--writers",
    type=click.IntRange(min=0),
    default=8,
    show_default=True,
    help="How many batches a tenant writes at a time while others ask; 0 leaves that part out.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=RESULTS,
    help="Where to make the folder of results.",
)
def main(
    data: Path | None,
    tenants: int,
    address: str | None,
    budgets: Sequence[float],
    shares: Sequence[float],
    seconds: float,
    calls: int,
    writers: int,
    out: Path,
) -> None:
    """Load the service beyond its capacity, and write JSON, a summary and a picture."""
    collection = multiplied_sample(tenants) if data is None else read_collection(data)
    plan = Plan(
        queries=collection.queries,
        warm_up_calls=calls,
        capacity_calls=calls,
        budgets_s=[budget / 1e3 for budget in budgets],
        shares=shares,
        seconds=seconds,
        writers=writers,
    )
    with recorded("overload", collection, out, summary, save_picture) as take:
        asyncio.run(_measure(address, collection, plan, take))


async def _measure(address: str | None, collection: Collection, plan: Plan, take: Take) -> None:
    async with running(address) as service:
        async with connected(service, 1) as connections:
            await store(connections, collection)
        await measure(service, plan, take)


if __name__ == "__main__":
    main()
