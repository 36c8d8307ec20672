"""`python -m tests.chaos --rounds 100`: faults in a desk under load (`make chaos`).

Prints what happens and what was found, and adds the figures to `bench/results`. Ends with 1 if an
acknowledged write was lost, or anything else is wrong (`tests/chaos/checker.py`). The data and
logs of a desk in which something was found, or whose run broke off, are copied there too.
"""

from __future__ import annotations

import asyncio
import random
import sys

import click

from bench.harness.results import append_record, run_folder
from bench.reports.environment import describe
from tests.chaos.desk import running_desk
from tests.chaos.faults import FAULTS, drawn
from tests.chaos.run import run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--placement", type=click.Choice([*FAULTS]), default="split", show_default=True)
@click.option("--seed", type=int, default=0, help="Of the faults and the operations.")
def main(rounds: int, placement: str, seed: int) -> None:
    """Kill and suspend parts of a desk under load, and compare what all stores hold."""
    folder = run_folder("chaos")
    folder.mkdir(parents=True)
    faults = drawn(random.Random(seed), placement, rounds)
    outcome = None
    click.echo(f"starting the desk, placement {placement}")
    with running_desk(placement) as desk:
        try:
            outcome = asyncio.run(run(desk, faults, placement, seed, click.echo))
        finally:
            if outcome is None or outcome.findings:
                desk.keep(folder / "desk")
    append_record(folder, outcome.result().as_record(describe()))
    for name, value in outcome.result().measured.items():
        click.echo(f"{name.replace('_', ' '):<14} {value}")
    for finding in outcome.findings:
        click.echo(finding)
        for write in outcome.writes:
            if write.group == finding.item.group:
                click.echo(f"  {write}")
    click.echo(f"results: {folder}")
    sys.exit(bool(outcome.findings))


if __name__ == "__main__":
    main()
