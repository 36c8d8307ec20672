"""The command `python -m bench.speed.recall`: how long a bot waits for its memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from rich.console import Console

from bench.harness.collection import Collection, read_collection
from bench.harness.connections import connected, connections_for
from bench.harness.results import RESULTS, Result
from bench.harness.sample import TENANTS, multiplied_sample
from bench.harness.service import running
from bench.harness.writing import store
from bench.reports.recording import recorded
from bench.speed.recall.calls import BUDGET_S, SILENCE_S, Plan, run_calls
from bench.speed.recall.figures import result_of, summary
from bench.speed.recall.picture import save_picture

CALLS = "1,8,32"

console = Console(stderr=True)


def _counts(_context: click.Context, _option: click.Parameter, given: str) -> Sequence[int]:
    try:
        found = [int(each) for each in given.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"not whole numbers separated by commas: {given!r}") from error
    if min(found) < 1:
        raise click.BadParameter(f"must be above 0: {given!r}")
    return found


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="An evaluation set, whose turns are spoken; without, the sample conversation multiplied.",
)
@click.option("--address", help="HOST:PORT of a running service, instead of starting one.")
@click.option(
    "--calls", default=CALLS, show_default=True, callback=_counts, help="How many calls at once."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="For how long new turns begin, for each number of calls, with prefetch and without.",
)
@click.option(
    "--silence-ms",
    type=click.FloatRange(min=0),
    default=SILENCE_S * 1e3,
    show_default=True,
    help="From the last word to the final transcript.",
)
@click.option(
    "--budget-ms",
    type=click.FloatRange(min=1),
    default=BUDGET_S * 1e3,
    show_default=True,
    help="How long the bot waits.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=RESULTS,
    help="Where to make the folder of results.",
)
def main(
    data: Path | None,
    address: str | None,
    calls: Sequence[int],
    seconds: float,
    silence_ms: float,
    budget_ms: float,
    out: Path,
) -> None:
    """Simulate calls, and measure from the final transcript of a turn to the prompt block."""
    collection = multiplied_sample(TENANTS) if data is None else read_collection(data)
    plans = [
        Plan(
            prefetch=prefetch,
            seconds=seconds,
            silence_s=silence_ms / 1e3,
            budget_s=budget_ms / 1e3,
        )
        for prefetch in (True, False)
    ]
    with recorded("recall", collection, out, summary, save_picture) as take:
        asyncio.run(_measure(address, collection, calls, plans, take))


async def _measure(
    address: str | None,
    collection: Collection,
    numbers: Sequence[int],
    plans: Sequence[Plan],
    take: Callable[[Result], None],
) -> None:
    tenants = list(collection.memories)
    async with (
        running(address) as service,
        connected(service, connections_for(max(numbers))) as connections,
    ):
        await store(connections, collection)
        for seed, (number, plan) in enumerate((each, plan) for each in numbers for plan in plans):
            called = [tenants[place % len(tenants)] for place in range(number)]
            console.print(f"{number} calls, {'with' if plan.prefetch else 'without'} prefetch")
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
