"""`python -m tests.chaos --rounds 100`: faults in a desk under load (`make chaos`).

Prints what happens and what was found, and writes both below `bench/results`. Ends with 1 if an
acknowledged write was lost, or anything else is wrong (`tests/chaos/checker.py`).
"""

from __future__ import annotations

import asyncio
import random
import sys

import click

from bench.harness.results import run_folder
from tests.chaos.desk import running_desk
from tests.chaos.faults import FAULTS, drawn
from tests.chaos.report import table, write_results
from tests.chaos.run import Outcome, run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", type=click.IntRange(min=1), default=100, show_default=True)
@click.option(
    "--placements",
    default="split,single",
    show_default=True,
    help="Of the desk, by comma; each has its share of the rounds.",
)
@click.option("--seed", type=int, default=0, help="Of the faults and the operations.")
def main(rounds: int, placements: str, seed: int) -> None:
    """Kill and suspend parts of a desk under load, and compare what all stores hold."""
    names = placements.split(",")
    unknown = set(names) - FAULTS.keys()
    if unknown:
        raise click.BadParameter(f"expected some of {', '.join(FAULTS)}, got {placements}")
    outcomes = [
        _run(name, rounds // len(names) + (number < rounds % len(names)), seed)
        for number, name in enumerate(names)
    ]
    folder = run_folder("chaos")
    write_results(folder, outcomes)
    for outcome in outcomes:
        click.echo(f"\n{table(outcome)}")
    click.echo(f"\nresults: {folder}")
    sys.exit(any(outcome.findings for outcome in outcomes))


def _run(placement: str, rounds: int, seed: int) -> Outcome:
    click.echo(f"starting the desk, placement {placement}")
    with running_desk(placement) as desk:
        faults = drawn(random.Random(seed), placement, rounds)
        return asyncio.run(run(desk, faults, placement, seed, click.echo))


if __name__ == "__main__":
    main()
