"""`python -m tests.chaos --rounds 100`: faults in a desk under load (`make chaos`).

Prints what happens and what was found, and writes both below `bench/results`. Ends with 1 if an
acknowledged write was lost, or anything else is wrong (`tests/chaos/checker.py`). The data and
logs of a desk in which something was found, or whose run broke off, are copied there too.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

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
    folder = run_folder("chaos")
    outcomes = []
    for number, name in enumerate(names):
        share = rounds // len(names) + (number < rounds % len(names))
        outcomes.append(outcome := _run(name, share, seed, folder))
        write_results(folder, outcome)
        click.echo(f"\n{table(outcome)}\n")
    click.echo(f"results: {folder}")
    sys.exit(any(outcome.findings for outcome in outcomes))


def _run(placement: str, rounds: int, seed: int, folder: Path) -> Outcome:
    click.echo(f"starting the desk, placement {placement}")
    with running_desk(placement) as desk:
        faults = drawn(random.Random(seed), placement, rounds)
        outcome = None
        try:
            outcome = asyncio.run(run(desk, faults, placement, seed, click.echo))
        finally:
            if outcome is None or outcome.findings:
                desk.keep(folder / f"{placement}-desk")
    return outcome


if __name__ == "__main__":
    main()
