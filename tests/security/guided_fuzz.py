"""`python -m tests.security.guided_fuzz`: varies the inputs that reached new code (`make fuzz`).

The fuzzer is atheris, which drives libFuzzer by the coverage of the package `serving`. An input
that is not read properly, takes 20 s or needs much memory ends the run, and is stored in the folder
of the results.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

import atheris
import click

from bench.harness.results import RESULTS, run_folder
from tests.security.fuzz_report import Run

atheris.enabled_hooks.add("str")
with atheris.instrument_imports(include=["serving"]):
    from tests.security.edge import TARGETS, Edge, Inputs

FIRST_INPUTS = 40
"""For each target, less those that are too long; the fuzzer varies them."""
LONGEST = 16 * 1024
PATIENCE_S = 20


def split(encoded: bytes) -> tuple[str, bytes]:
    """The target, which the first byte names, and the input for it."""
    return TARGETS[encoded[0] % len(TARGETS)], encoded[1:]


def varied(encoded: bytes, most: int, seed: int, edge: Edge) -> bytes:
    """An input that differs by a field of its message, or by any of its bytes."""
    if encoded and seed % 2:
        target, request = split(encoded)
        other = encoded[:1] + Inputs(seed, edge).vary(target, request)
        if len(other) <= most:
            return other
    return bytes(atheris.Mutate(encoded, most))


@click.command()
@click.option("--inputs", "most", type=click.IntRange(min=1), default=1_000_000)
@click.option("--seed", type=click.IntRange(min=1), default=1)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=RESULTS, hidden=True
)
def main(most: int, seed: int, out: Path) -> None:
    """Sends inputs to the edge of the service, and varies those that reach new code."""
    edge, outcomes = Edge(), Counter[str]()
    corpus = tempfile.TemporaryDirectory(prefix="trivium-fuzz-")
    folder, run = run_folder("fuzz-guided", out), Run("guided", seed)
    folder.mkdir(parents=True)

    def receive(encoded: bytes) -> None:
        if encoded:
            outcomes[edge.receive(*split(encoded))] += 1
        if outcomes.total() == most:
            run.report(outcomes, folder)
            corpus.cleanup()
            sys.stdout.flush()
            os._exit(0)  # libFuzzer does not return

    with corpus:
        inputs = Inputs(seed, edge)
        for number, target in enumerate(TARGETS):
            for place in range(FIRST_INPUTS):
                first = bytes([number]) + inputs.make(target)
                if len(first) <= LONGEST:
                    (Path(corpus.name) / f"{target}-{place}").write_bytes(first)
        options = {
            "seed": seed,
            "max_len": LONGEST,
            "timeout": PATIENCE_S,
            "rss_limit_mb": 0,  # `Run` has one
            "artifact_prefix": f"{folder}/",
            "verbosity": 0,
        }
        atheris.Setup(
            [sys.argv[0], *(f"-{name}={value}" for name, value in options.items()), corpus.name],
            receive,
            custom_mutator=lambda data, most, seed: varied(data, most, seed, edge),
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
