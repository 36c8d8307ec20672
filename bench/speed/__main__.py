"""The command `python -m bench.speed`: measures the service and writes results."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from bench.harness.options import HELP, chosen, data_option, out_option
from bench.harness.results import Take
from bench.reports.plots import save_picture
from bench.reports.recording import console, recorded
from bench.reports.report import summary
from bench.speed.suite import MIN_CALLS, SCENARIOS, Plan, run, service


def _scenarios(_context: click.Context, _option: click.Parameter, given: str) -> Sequence[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    unknown = sorted(set(names) - set(SCENARIOS))
    if unknown:
        raise click.BadParameter(f"no scenario {unknown[0]!r}; there are {', '.join(SCENARIOS)}")
    return names or SCENARIOS


@click.command(context_settings=HELP)
@data_option
@click.option(
    "--only",
    default="",
    callback=_scenarios,
    help=f"Scenarios by comma, of {', '.join(SCENARIOS)}; without, all.",
)
@click.option(
    "--calls",
    type=click.IntRange(min=1),
    default=MIN_CALLS,
    show_default=True,
    help="The minimum number of questions of each loop, going round.",
)
@out_option
def main(data: Path | None, only: Sequence[str], calls: int, out: Path) -> None:
    """Measure the service, and write JSON, a summary and a picture."""
    collection = chosen(data)
    for problem in collection.problems[:10]:
        console.print(f"left out: {problem}", style="yellow")
    plan = Plan(collection=collection, scenarios=only, min_calls=calls)
    with recorded("speed", collection, out, summary, save_picture) as take:
        asyncio.run(_measure(plan, take))


async def _measure(plan: Plan, take: Take) -> None:
    console.print("starting the service")
    async with service(plan, take) as running:
        await run(plan, running, take)
        console.print("stopping the service")


if __name__ == "__main__":
    main()
