"""Runs the benchmarks of a GPU in a given time: `make bench-gpu`, or `python -m bench.gpu.suite`.

Each step is a process with a limit, and writes each result as soon as it has it, so one that is
stopped keeps what it has measured. `--dry-run` runs every step on the CPU with networks and indexes
of no size, which proves the scripts and measures nothing.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import torch

from bench.harness.results import FILE_NAME, run_folder

FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Step:
    """A benchmark.

    Attributes:
        name: The folder of its results.
        command: The module and its options.
        dry: The options that replace the others in a dry run.
        minutes: When it is stopped.
    """

    name: str
    command: tuple[str, ...]
    dry: tuple[str, ...]
    minutes: float

    def arguments(self, folder: Path, *, dry_run: bool) -> list[str]:
        """The arguments of Python."""
        module, *options = self.command
        chosen = self.dry if dry_run else options
        return ["-m", module, *chosen, "--out", str(folder / self.name)]


ON_CPU = ("--device", "cpu", "--tiny")
STEPS = (
    Step("networks-small", ("bench.gpu", "--group", "small"), (*ON_CPU, "--rounds", "1"), 4),
    Step("index-small", ("bench.gpu.index", "--rows", "100000"), ON_CPU, 3),
    Step("networks-large", ("bench.gpu", "--group", "large"), (*ON_CPU, "--rounds", "1"), 4),
    Step("index-large", ("bench.gpu.index", "--rows", "1000000"), ON_CPU, 6),
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--minutes", default=30.0, show_default=True, help="When the last step is stopped.")
@click.option("--only", multiple=True, type=click.Choice([step.name for step in STEPS]))
@click.option("--dry-run", is_flag=True, help="On the CPU, with nothing of any size.")
@click.option("--out", type=click.Path(path_type=Path), help="A folder for the results.")
def main(minutes: float, only: Sequence[str], dry_run: bool, out: Path | None) -> None:
    """Run the benchmarks of a GPU, one after the other, within a given time."""
    if not dry_run and not torch.cuda.is_available():
        raise click.ClickException(
            "there is no CUDA device: `python -m serving doctor` says why, and --dry-run runs "
            "the scripts on the CPU"
        )
    folder = out or run_folder("dry-gpu" if dry_run else "gpu")
    end = time.monotonic() + minutes * 60
    outcomes = {}
    for step in STEPS:
        if not only or step.name in only:
            click.echo(f"\n{step.name}, at most {step.minutes:g} minutes")
            limit_s = min(step.minutes * 60, end - time.monotonic())
            outcomes[step.name] = run(step, folder, limit_s, dry_run=dry_run)
    click.echo("\n" + "\n".join(f"{name}: {outcome}" for name, outcome in outcomes.items()))
    click.echo(f"results in {folder}")
    if FAILED in outcomes.values():
        raise click.ClickException("a step failed")


def run(step: Step, folder: Path, limit_s: float, *, dry_run: bool) -> str:
    """Runs a step within a limit; returns what became of it."""
    if limit_s <= 0:
        return "left out: the time is over"
    command = [sys.executable, *step.arguments(folder, dry_run=dry_run)]
    try:
        ended = f"ended with {subprocess.run(command, timeout=limit_s, check=True).returncode}"
    except subprocess.CalledProcessError:
        return FAILED
    except subprocess.TimeoutExpired:
        ended = "stopped at its limit"
    results = folder / step.name / FILE_NAME
    count = len(results.read_text(encoding="utf-8").splitlines()) if results.exists() else 0
    return f"{ended}, {count} results"


if __name__ == "__main__":
    main()
