"""Runs all benchmarks of a GPU in a given time: `make bench-gpu`, or `python -m bench.gpu.suite`.

Each step is a process of its own, with a limit of its own, and the cheapest proof comes first. A
step writes each result as soon as it has it, so one that is stopped keeps what it has measured.
Without a GPU the command prints what it would need and run. `--dry-run` runs every step on the CPU
with networks and indexes of no size, which proves the scripts and measures nothing.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import torch

from bench.harness.results import FILE_NAME, run_folder
from serving.desk.doctor.gpu import LEAST_DRIVER
from serving.desk.doctor.gpu_facts import GIB, GpuFacts, gather

NAME = "gpu"
DRY_NAME = "dry-gpu"
"""The names of the folders of results."""

FAILED, STOPPED = "failed", "stopped at its limit"

ENDING_S = 20.0
"""How long a step that is stopped may take to end its own processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A benchmark.

    Args:
        name: The folder of its results.
        shows: What it measures.
        command: The module and its options.
        dry: The options that replace the others in a dry run.
        minutes: When it is stopped.
        gpu_gib: The memory that it needs on the device.
    """

    name: str
    shows: str
    command: tuple[str, ...]
    dry: tuple[str, ...]
    minutes: float
    gpu_gib: float

    def arguments(self, folder: Path, *, dry_run: bool) -> list[str]:
        """The arguments of Python."""
        module, *options = self.command
        chosen = self.dry if dry_run else options
        return ["-m", module, *chosen, "--out", str(folder / self.name)]


ON_CPU = ("--device", "cpu", "--tiny")
MODELS = ("bench.gpu",)
INDEX = ("bench.gpu.index",)

STEPS = (
    Step(
        name="networks-small",
        shows="Qwen3-Embedding-0.6B and the rerankers, each against its floor",
        command=(*MODELS, "--rounds", "30", "--group", "small"),
        dry=(*ON_CPU, "--rounds", "1"),
        minutes=4,
        gpu_gib=6,
    ),
    Step(
        name="index-small",
        shows="exact and in lists, 100,000 rows of 1,024",
        command=(*INDEX, "--rows", "100000"),
        dry=ON_CPU,
        minutes=3,
        gpu_gib=4,
    ),
    Step(
        name="retrieve",
        shows="text in, neighbours out, of 1,000,000 rows; the rate that keeps p95 < 20 ms",
        command=("bench.gpu.retrieve",),
        dry=ON_CPU,
        minutes=5,
        gpu_gib=12,
    ),
    Step(
        name="batching",
        shows="2,000 questions a second beside documents, 0.6B",
        command=("bench.gpu.batching", "--encoder", "0.6B"),
        dry=("--seconds", "0.1", "--queries-per-s", "200"),
        minutes=2,
        gpu_gib=4,
    ),
    Step(
        name="networks-large",
        shows="Qwen3-Embedding-4B and 8B",
        command=(*MODELS, "--rounds", "20", "--group", "large"),
        dry=(*ON_CPU, "--rounds", "1"),
        minutes=4,
        gpu_gib=20,
    ),
    Step(
        name="index-large",
        shows="1,000,000 rows of 1,024: searches, writes, a rebuild under searches",
        command=(*INDEX, "--rows", "1000000"),
        dry=(*ON_CPU, "--rows", "2200"),
        minutes=6,
        gpu_gib=12,
    ),
    Step(
        name="fill",
        shows="1,000,000 rows from a PostgreSQL of its own into the index",
        command=("bench.index.fill", "--rows", "1000000", "--device", "cuda"),
        dry=("--rows", "2000", "--dimension", "16"),
        minutes=6,
        gpu_gib=6,
    ),
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--minutes", default=30.0, show_default=True, help="When the last step is stopped.")
@click.option("--only", multiple=True, type=click.Choice([step.name for step in STEPS]))
@click.option("--dry-run", is_flag=True, help="On the CPU, with nothing of any size.")
@click.option("--out", type=click.Path(path_type=Path), help="A folder for the results.")
def main(minutes: float, only: Sequence[str], dry_run: bool, out: Path | None) -> None:
    """Run all benchmarks of a GPU, one after the other, within a given time."""
    steps = [step for step in STEPS if not only or step.name in only]
    facts = gather()
    if not dry_run and not facts.devices:
        click.echo(plan(steps, facts))
        raise click.ClickException("there is no CUDA device: nothing was run")
    folder = out or run_folder(DRY_NAME if dry_run else NAME)
    # So that the step that runs is ended too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    room_gib = float("inf") if dry_run else torch.cuda.mem_get_info()[0] / GIB
    outcomes = Suite(folder, minutes * 60, dry_run=dry_run).run(steps, room_gib)
    click.echo("\n" + "\n".join(f"{name}: {outcome}" for name, outcome in outcomes.items()))
    click.echo(f"results in {folder}" + ("" if dry_run else "; `make gpu-report` writes the pages"))
    if FAILED in outcomes.values():
        raise click.ClickException("a step failed")


def plan(steps: Sequence[Step], facts: GpuFacts) -> str:
    """What the machine needs, what was found, and what would be run, on one screen."""
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items())
    lines = [
        "Needs: an NVIDIA GPU, driver "
        f"{LEAST_DRIVER[13]} or later for CUDA 13, 32 GB of memory, `make install-gpu`.",
        f"Found: driver {facts.driver or 'none'}, {len(facts.devices)} CUDA devices, {versions}.",
        "",
        f"{'step':<16}{'stops after':<13}{'GPU':<8}what it measures",
    ]
    for step in steps:
        limit, memory = f"{step.minutes:g} min", f"{step.gpu_gib:g} GiB"
        lines.append(f"{step.name:<16}{limit:<13}{memory:<8}{step.shows}")
        lines.append(f"{'':<16}python -m {' '.join(step.command)}")
    total = sum(step.minutes for step in steps)
    lines += ["", f"At most {total:g} minutes; `--minutes` limits all of it, `--only` names steps."]
    return "\n".join(lines)


class Suite:
    """Runs steps until the time is over.

    Args:
        folder: Where each step has a folder for its results.
        seconds: The time for all steps.
        dry_run: Whether the steps run on the CPU.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        folder: Path,
        seconds: float,
        *,
        dry_run: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._end = clock() + seconds
        self._dry_run = dry_run
        self._clock = clock

    def run(self, steps: Sequence[Step], room_gib: float) -> dict[str, str]:
        """Runs the steps that fit.

        Args:
            steps: In their order.
            room_gib: The free memory of the device.

        Returns:
            What became of each step.
        """
        outcomes = {}
        for number, step in enumerate(steps, start=1):
            left_s = self._end - self._clock()
            if step.gpu_gib > room_gib:
                outcome = f"left out: needs {step.gpu_gib:g} GiB, {room_gib:.0f} are free"
            elif left_s <= 0:
                outcome = "left out: the time is over"
            else:
                limit_s = min(step.minutes * 60, left_s)
                click.echo(
                    f"\n[{number}/{len(steps)}] {step.name}: {step.shows} "
                    f"(at most {limit_s / 60:.1f} of {left_s / 60:.1f} minutes)"
                )
                outcome = self._run(step, limit_s)
            click.echo(f"{step.name}: {outcome}")
            outcomes[step.name] = outcome
        return outcomes

    def _run(self, step: Step, limit_s: float) -> str:
        started = self._clock()
        arguments = step.arguments(self._folder, dry_run=self._dry_run)
        ended = ended_in_time([sys.executable, *arguments], limit_s)
        found = sum(
            len(path.read_text(encoding="utf-8").splitlines())
            for path in (self._folder / step.name).rglob(FILE_NAME)
        )
        if ended is None:
            return f"{STOPPED}, with {found} results"
        return FAILED if ended else f"{found} results in {self._clock() - started:.0f} s"


def ended_in_time(command: Sequence[str], limit_s: float) -> int | None:
    """Runs a command; one that takes longer is interrupted, so that it ends what it has started.

    Returns:
        Its exit status; None if it was interrupted.
    """
    with subprocess.Popen(command, preexec_fn=_be_interruptible) as process:
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                _interrupt(process)


def _be_interruptible() -> None:
    """Undoes that a shell lets commands in the background ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()


if __name__ == "__main__":
    main()
