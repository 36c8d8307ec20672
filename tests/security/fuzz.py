"""`python -m tests.security.fuzz`: hostile requests by the million (`make fuzz`).

Prints how many were accepted, rejected and undecodable, and the largest memory of the process. The
first request that is not read properly is printed with its seed, and ends the run.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter

import click

from tests.security.edge import METHODS, Edge, inputs

PER_SEED = 1000


@click.command()
@click.option("--inputs", "count", type=click.IntRange(min=1), default=1_000_000)
@click.option("--seed", "first", type=int, default=0, help="The first seed.")
def main(count: int, first: int) -> None:
    """Sends hostile requests to the edge of the service."""
    edge, outcomes, names = Edge(), Counter[str](), sorted(METHODS)
    started = time.perf_counter()
    for number in range(count):
        seed, place = first + number // PER_SEED, number % PER_SEED
        if place == 0:
            make = inputs(seed)
        method = names[place % len(names)]
        encoded = make(method)
        try:
            outcomes[edge.receive(method, encoded)] += 1
        except Exception:
            print(f"seed {seed}, input {place}: {method} {encoded!r}", file=sys.stderr)
            raise
    took = time.perf_counter() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{count} inputs in {took:.0f} s, at most {memory} MiB")
    for outcome, times in outcomes.most_common():
        print(f"{outcome:<16} {times}")


if __name__ == "__main__":
    main()
