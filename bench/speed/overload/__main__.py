"""The command `python -m bench.speed.overload`: loads the service beyond its capacity."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from bench.harness.collection import Collection
from bench.harness.connections import connected
from bench.harness.options import HELP, address_option, chosen, data_option, numbers, out_option
from bench.harness.results import Take
from bench.harness.sample import TENANTS
from bench.harness.service import running
from bench.harness.writing import store
from bench.reports.recording import recorded
from bench.speed.overload.figures import save_picture, summary
from bench.speed.overload.loads import Plan, measure


@click.command(context_settings=HELP)
@data_option
@address_option
@click.option(
    "--tenants",
    type=click.IntRange(min=1),
    default=TENANTS,
    show_default=True,
    help="How often the sample conversation is multiplied.",
)
@click.option(
    "--budgets",
    default="50,100,300",
    show_default=True,
    callback=numbers,
    help="What callers give each call, in ms.",
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
@out_option
def main(
    data: Path | None,
    address: str | None,
    tenants: int,
    budgets: Sequence[float],
    seconds: float,
    calls: int,
    out: Path,
) -> None:
    """Load the service beyond its capacity, and write JSON, a summary and a picture."""
    collection = chosen(data, tenants)
    plan = Plan(
        queries=collection.queries,
        capacity_calls=calls,
        budgets_s=[budget / 1e3 for budget in budgets],
        seconds=seconds,
    )
    with recorded("overload", collection, out, summary, save_picture) as take:
        asyncio.run(_measure(address, collection, plan, take))


async def _measure(address: str | None, collection: Collection, plan: Plan, take: Take) -> None:
    async with running(address) as service:
        async with connected(service.address, 1) as connections:
            await store(connections, collection)
        await measure(service.address, plan, take)


if __name__ == "__main__":
    main()
