"""`python -m tests.chaos.starts`: starts a desk repeatedly while other programs take the cores.

Each start is on fresh data, and ends before the next one. Ends with 1 if one failed; its output is
printed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import click

from tests.chaos.desk import running_desk

BURN = "while True: pass"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--starts", type=click.IntRange(min=1), default=10, show_default=True)
@click.option(
    "--burners",
    type=click.IntRange(min=0),
    default=16,
    show_default=True,
    help="Processes that only compute, with the niceness of this command.",
)
def main(starts: int, burners: int) -> None:
    """Start a desk while other programs take the cores, and print how long each start took."""
    failed = 0
    with burning(burners):
        for number in range(1, starts + 1):
            began = time.monotonic()
            try:
                with running_desk("single"):
                    took, load = time.monotonic() - began, os.getloadavg()[0]
                    click.echo(f"start {number}: {took:.0f} s at a load of {load:.0f}")
            except AssertionError as error:
                failed += 1
                click.echo(f"start {number} failed after {time.monotonic() - began:.0f} s\n{error}")
    sys.exit(bool(failed))


@contextlib.contextmanager
def burning(count: int) -> Iterator[None]:
    """Runs processes that take all the time they get, until the end of the block."""
    processes = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
