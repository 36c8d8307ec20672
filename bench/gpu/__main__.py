"""Measures the models of the GPU tier: `python -m bench.gpu --help`.

Each network has random weights, so no checkpoint is needed; times do not depend on them. Each
batch is run in several ways and compared with the floor of the device, which is measured first.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import torch

from bench.gpu.networks.cases import BY_NAME, CASES, TINY_CASES, Case
from bench.gpu.networks.contenders import Run, random_windows
from bench.gpu.networks.floors import Speed, about_device, speed_of, wait_for
from bench.harness import options
from bench.harness.results import Latency, Result, run_folder
from bench.reports.recording import record_all
from serving.gpu.networks.errors import DeviceMemoryError
from serving.gpu.networks.precision import Precision

WARM_UPS = 3


@click.command(context_settings=options.HELP)
@options.device
@options.tiny
@click.option("--only", multiple=True, type=click.Choice(sorted(BY_NAME)), help="These alone.")
@click.option("--rounds", default=50, show_default=True, help="Times each batch is measured.")
@click.option("--out", type=click.Path(path_type=Path), help="A folder for the results.")
def main(device: str, tiny: bool, only: Sequence[str], rounds: int, out: Path | None) -> None:
    """Measure the models of the GPU tier, with random weights of their published sizes."""
    on = torch.device(device)
    precision: Precision = "float32" if on.type == "cpu" else "bfloat16"
    speed = speed_of(on, precision)
    cases = TINY_CASES if tiny else [BY_NAME[name] for name in only] or CASES
    made = (each for case in cases for each in results(case, on, precision, speed, rounds))
    record_all(made, out or run_folder("gpu-networks"), about_device(on, speed))


def results(
    case: Case, device: torch.device, precision: Precision, speed: Speed, rounds: int
) -> Iterator[Result]:
    """Measures a network in every way, and frees its memory."""
    try:
        network = case.make(device, precision)
        for batch in case.batches:
            windows = random_windows(batch.lengths, case.vocabulary)
            bytes_each = getattr(torch, precision).itemsize
            floor_ms = speed.floor_s(network.body, batch.lengths, bytes_each) * 1e3
            for way, run in network.runs.items():
                seconds = timed(run, windows, device, rounds)
                latency = Latency.of(seconds)
                yield Result(
                    scenario=case.name,
                    parameters={**batch._asdict(), "way": way, "precision": precision},
                    n=rounds,
                    throughput_per_s=round(batch.rows * rounds / sum(seconds), 1),
                    latency=latency,
                    measured={
                        "floor_ms": round(floor_ms, 4),
                        "times_the_floor": round(latency.p50_ms / floor_ms, 2),
                    },
                )
        del network
    except (DeviceMemoryError, torch.OutOfMemoryError) as error:
        yield Result(scenario=case.name, n=0, measured={"failed": str(error).splitlines()[0]})
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def timed(
    run: Run, windows: Sequence[Sequence[int]], device: torch.device, rounds: int
) -> list[float]:
    """The seconds of each round, from tokens on the host to rows on the host."""
    times = []
    for _ in range(WARM_UPS + rounds):
        wait_for(device)
        started = time.perf_counter()
        run(windows)
        times.append(time.perf_counter() - started)
    return times[WARM_UPS:]


if __name__ == "__main__":
    main()
