"""The command `python -m bench.speed.recall`: how long a bot waits for its memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import click

from bench.harness.collection import Collection
from bench.harness.connections import connected, connections_for
from bench.harness.options import HELP, address_option, chosen, data_option, numbers, out_option
from bench.harness.results import Take
from bench.harness.service import running
from bench.harness.writing import store
from bench.reports.recording import console, recorded
from bench.speed.recall.calls import Plan, run_calls
from bench.speed.recall.figures import result_of, save_picture, summary


@click.command(context_settings=HELP)
@data_option
@address_option
@click.option(
    "--calls", default="1,8,32", show_default=True, callback=numbers, help="How many at once."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="For how long new turns begin, for each number of calls, with prefetch and without.",
)
@out_option
def main(
    data: Path | None,
    address: str | None,
    calls: Sequence[float],
    seconds: float,
    out: Path,
) -> None:
    """Simulate calls, and measure from the final transcript of a turn to the prompt block."""
    collection = chosen(data)
    plans = [Plan(prefetch=prefetch, seconds=seconds) for prefetch in (True, False)]
    with recorded("recall", collection, out, summary, save_picture) as take:
        asyncio.run(_measure(address, collection, [round(each) for each in calls], plans, take))


async def _measure(
    address: str | None,
    collection: Collection,
    counts: Sequence[int],
    plans: Sequence[Plan],
    take: Take,
) -> None:
    tenants = list(collection.memories)
    async with (
        running(address) as service,
        connected(service.address, connections_for(max(counts))) as connections,
    ):
        await store(connections, collection)
        for seed, (count, plan) in enumerate((each, plan) for each in counts for plan in plans):
            called = [tenants[place % len(tenants)] for place in range(count)]
            console.print(f"{count} calls, {'with' if plan.prefetch else 'without'} prefetch")
            calls = await run_calls(
                [connections.client(tenant) for tenant in called],
                [[each.text for each in collection.memories[tenant].segments] for tenant in called],
                plan,
                time.perf_counter,
                seed,
            )
            take(result_of(calls, plan))


if __name__ == "__main__":
    main()
