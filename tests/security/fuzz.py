"""`python -m tests.security.fuzz`: hostile inputs at random, by the million (`make fuzz`).

The first input that is not read properly is printed with its seed, and ends the run.
"""

from __future__ import annotations

import sys
from collections import Counter
from itertools import count

import click

from bench.harness.results import run_folder
from tests.security.edge import TARGETS, Edge, Inputs
from tests.security.fuzz_report import Run

PER_SEED = 1000


@click.command()
@click.option("--inputs", "most", type=click.IntRange(min=1), default=1_000_000)
@click.option("--seed", "first", type=int, default=0, help="The first seed.")
def main(most: int, first: int) -> None:
    """Sends hostile requests and credentials to the edge of the service."""
    edge, outcomes = Edge(), Counter[str]()
    run = Run("random", first)
    for seed in count(first):
        inputs = Inputs(seed, edge)
        for place in range(min(PER_SEED, most - outcomes.total())):
            target = TARGETS[place % len(TARGETS)]
            encoded = inputs.make(target)
            try:
                outcomes[edge.receive(target, encoded)] += 1
            except Exception:
                print(f"seed {seed}, input {place}: {target} {encoded!r}", file=sys.stderr)
                raise
        if outcomes.total() == most:
            break
    run.report(outcomes, run_folder("fuzz-random"))


if __name__ == "__main__":
    main()
