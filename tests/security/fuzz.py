"""`python -m tests.security.fuzz`: hostile inputs by the million (`make fuzz`).

At random, or with `--guided` by atheris, which drives libFuzzer by the coverage of the package
`serving`. An input that is not read properly ends the run. It is printed, or stored in the folder
of the results if it is guided; such a run also ends with an input that takes 20 s.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import click

from bench.harness.results import RESULTS, Result, append_record, run_folder
from bench.reports.environment import describe

PER_SEED = 1000
FIRST_INPUTS = 40
"""For each target, less those that are too long; the guided fuzzer varies them."""
LONGEST = 16 * 1024
PATIENCE_S = 20
MAX_MEMORY_MIB = 1024
MIB = 1024 * 1024


@click.command()
@click.option("--inputs", "limit", type=click.IntRange(min=1), default=1_000_000)
@click.option("--seed", type=click.IntRange(min=0), default=1, help="The first seed.")
@click.option("--guided", is_flag=True, help="Vary the inputs that reach new code.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=RESULTS, hidden=True
)
def main(limit: int, seed: int, *, guided: bool, out: Path) -> None:
    """Sends hostile requests and credentials to the edge of the service, in at most 1 GiB."""
    (_guided if guided else _random)(limit, seed, out)


def _random(limit: int, first: int, out: Path) -> None:
    from tests.security.edge import TARGETS, Edge, Inputs

    edge, outcomes, started = Edge(), Counter[str](), time.perf_counter()
    limit_memory()
    for seed in count(first):
        inputs = Inputs(seed, edge)
        for place in range(min(PER_SEED, limit - outcomes.total())):
            target = TARGETS[place % len(TARGETS)]
            encoded = inputs.make(target)
            try:
                outcomes[edge.receive(target, encoded)] += 1
            except Exception:
                print(f"seed {seed}, input {place}: {target} {encoded!r}", file=sys.stderr)
                raise
        if outcomes.total() == limit:
            break
    report("random", first, outcomes, started, run_folder("fuzz-random", out))


def _guided(limit: int, seed: int, out: Path) -> None:
    import atheris

    atheris.enabled_hooks.add("str")
    with atheris.instrument_imports(include=["serving"]):
        from tests.security.edge import TARGETS, Edge, Inputs

    edge, outcomes, started = Edge(), Counter[str](), time.perf_counter()
    limit_memory()
    corpus = tempfile.TemporaryDirectory(prefix="trivium-fuzz-")
    folder = run_folder("fuzz-guided", out)
    folder.mkdir(parents=True)

    def split(encoded: bytes) -> tuple[str, bytes]:
        """The target, which the first byte names, and the input for it."""
        return TARGETS[encoded[0] % len(TARGETS)], encoded[1:]

    def varied(encoded: bytes, longest: int, seed: int) -> bytes:
        """An input that differs by a field of its message, or by any of its bytes."""
        if encoded and seed % 2:
            other = encoded[:1] + Inputs(seed, edge).vary(*split(encoded))
            if len(other) <= longest:
                return other
        return bytes(atheris.Mutate(encoded, longest))

    def receive(encoded: bytes) -> None:
        if encoded:
            outcomes[edge.receive(*split(encoded))] += 1
        if outcomes.total() == limit:
            report("guided", seed, outcomes, started, folder)
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
            "rss_limit_mb": 0,  # `limit_memory` has set one
            "artifact_prefix": f"{folder}/",
            "verbosity": 0,
        }
        arguments = [f"-{name}={value}" for name, value in options.items()]
        atheris.Setup([sys.argv[0], *arguments, corpus.name], receive, custom_mutator=varied)
        atheris.Fuzz()


def report(
    fuzzer: str, seed: int, outcomes: Mapping[str, int], started: float, folder: Path
) -> None:
    """Prints what became of the inputs, and writes it into a folder as a benchmark does."""
    total, seconds = sum(outcomes.values()), time.perf_counter() - started
    memory_mib = max_memory() // MIB
    print(f"{fuzzer}: {total} inputs in {seconds:.0f} s, at most {memory_mib} MiB")
    for outcome, times in sorted(outcomes.items(), key=lambda each: -each[1]):
        print(f"{outcome:<20} {times}")
    accepted, undecodable = (outcomes.get(each, 0) for each in ("accepted", "undecodable"))
    result = Result(
        scenario="fuzz",
        parameters={"fuzzer": fuzzer, "seed": seed},
        n=total,
        measured={
            "accepted": accepted,
            "undecodable": undecodable,
            "rejected": total - accepted - undecodable,
            "memory_mib": memory_mib,
            "seconds": round(seconds),
        },
    )
    folder.mkdir(parents=True, exist_ok=True)
    append_record(folder, result.as_record(describe()))
    print(f"results: {folder}")


def limit_memory() -> None:
    """Lets this process have at most `MAX_MEMORY_MIB`, with what it has imported."""
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_MIB * MIB,) * 2)


def max_memory() -> int:
    """The most memory that this process has had, in bytes.

    Not that of `getrusage`, which includes that of the process that started it.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, "Linux says this of each process"
    return int(found[1]) * 1024


if __name__ == "__main__":
    main()
