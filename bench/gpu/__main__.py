"""Measures the models of the GPU tier: `python -m bench.gpu --help`.

Each network has random weights, so no checkpoint is needed; times do not depend on them. Each
batch is run in several ways and compared with the floor of the device, which is measured first.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, get_args

import click
import torch

from bench.gpu.device import about_device, require_device, speed_of
from bench.gpu.networks.cases import BY_NAME, CASES, TINY_CASES, Batch, Case
from bench.gpu.networks.contenders import Network, Run, random_windows
from bench.gpu.networks.floors import Speed, wait_for
from bench.harness.latency import Latency
from bench.harness.results import Result, append_record, run_folder
from bench.reports.environment import describe
from serving.gpu.networks.batches import Window
from serving.gpu.networks.errors import DeviceMemoryError
from serving.gpu.networks.precision import Precision

WARM_UPS = 3
GROUPS = ("small", "large")


@click.command()
@click.option("--device", default="cuda", help="As torch names it.")
@click.option("--tiny", is_flag=True, help="Networks of no size: proves the script, no speed.")
@click.option("--only", multiple=True, type=click.Choice(sorted(BY_NAME)), help="These alone.")
@click.option("--group", type=click.Choice(GROUPS), help="The 4B and 8B, or all others.")
@click.option(
    "--precision",
    type=click.Choice(get_args(Precision)),
    help="bfloat16, on a CPU float32, if it is left out.",
)
@click.option("--rounds", default=50, show_default=True, help="Times each batch is measured.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="A folder for the results; none for --tiny."
)
def main(
    device: str,
    tiny: bool,
    only: Sequence[str],
    group: str | None,
    precision: Precision | None,
    rounds: int,
    out: Path | None,
) -> None:
    """Measures the models of the GPU tier, with random weights of their published sizes."""
    require_device(device)
    bench = Bench.of(torch.device(device), precision, rounds)
    environment = {**describe(), **about_device(bench.device, bench.speed)}
    if out is None and not tiny:
        out = run_folder("gpu-networks")
    click.echo(heading(bench))
    for case in TINY_CASES if tiny else [BY_NAME[name] for name in only] or CASES:
        if group == GROUPS[not case.is_large]:
            continue
        for result in bench.results(case):
            click.echo(row(result))
            if out is not None:
                out.mkdir(parents=True, exist_ok=True)
                append_record(out, result.as_record(environment))
    if out is not None:
        click.echo(f"\nwritten to {out}")


@dataclass(frozen=True, slots=True)
class Bench:
    """A device, its speed, and how many times each batch is measured."""

    device: torch.device
    precision: Precision
    speed: Speed
    rounds: int

    @classmethod
    def of(cls, device: torch.device, precision: Precision | None, rounds: int) -> Self:
        """Measures the device's speed."""
        precision = precision or ("float32" if device.type == "cpu" else "bfloat16")
        return cls(device, precision, speed_of(device, precision), rounds)

    def results(self, case: Case) -> Iterator[Result]:
        """Measures a network in every way, and frees its memory."""
        try:
            network = case.make(self.device, self.precision)
            for batch in case.batches:
                yield from self._of_batch(case, batch, network)
            del network
        except (DeviceMemoryError, torch.OutOfMemoryError) as error:
            yield Result(scenario=case.name, n=0, measured={"failed": str(error).splitlines()[0]})
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _of_batch(self, case: Case, batch: Batch, network: Network) -> Iterator[Result]:
        windows = random_windows(batch.lengths, case.vocabulary)
        bytes_each = getattr(torch, self.precision).itemsize
        work = network.body.work(batch.lengths, bytes_each)
        floor_ms = self.speed.floor_s(work) * 1e3
        for way, run in network.ways.items():
            seconds = self._timed(run, windows)
            latency = Latency.of(seconds)
            yield Result(
                scenario=case.name,
                parameters={
                    "rows": batch.rows,
                    "tokens": batch.tokens,
                    "ragged": batch.ragged,
                    "way": way,
                    "precision": self.precision,
                },
                n=self.rounds,
                throughput_per_s=round(batch.rows * self.rounds / sum(seconds), 1),
                latency=latency,
                measured={
                    "floor_ms": round(floor_ms, 4),
                    "times_the_floor": round(latency.p50_ms / floor_ms, 2),
                },
            )

    def _timed(self, run: Run, windows: Sequence[Window]) -> list[float]:
        """The seconds of each round, from tokens on the host to rows on the host."""
        times = []
        for _ in range(WARM_UPS + self.rounds):
            wait_for(self.device)
            started = time.perf_counter()
            run(windows)
            times.append(time.perf_counter() - started)
        return times[WARM_UPS:]


def heading(bench: Bench) -> str:
    """The device, and the names of the columns."""
    return (
        f"{bench.device}: {bench.speed.bytes_per_s / 1e9:.0f} GB/s, "
        f"{bench.speed.operations_per_s / 1e12:.2f} TFLOP/s in {bench.precision}\n\n"
        f"{'network':<24}{'rows x tokens':<15}{'way':<23}"
        f"{'p50 ms':>9}{'p99 ms':>9}{'floor ms':>10}{'x floor':>9}"
    )


def row(result: Result) -> str:
    """A line of the table."""
    if result.latency is None:
        return f"{result.scenario:<24}{result.measured['failed']}"
    most = "<=" if result.parameters["ragged"] else ""
    shape = f"{result.parameters['rows']} x {most}{result.parameters['tokens']}"
    return (
        f"{result.scenario:<24}{shape:<15}{result.parameters['way']:<23}"
        f"{result.latency.p50_ms:>9.3f}{result.latency.p99_ms:>9.3f}"
        f"{result.measured['floor_ms']:>10}{result.measured['times_the_floor']:>9}"
    )


if __name__ == "__main__":
    main()
