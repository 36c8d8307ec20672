"""Measures the vector index on a GPU: `python -m bench.gpu.index --help`.

The index is the one that a replica serves. It is searched exactly and in lists, one question at a
time, and by sixteen threads side by side. A plain matrix product over the same rows, and the time
to read them once, are the measure of both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import torch

from bench.gpu.networks.floors import about_device, require_device, speed_of
from bench.harness.latency import Latency
from bench.harness.options import HELP
from bench.harness.results import Json, Result, append_record, run_folder
from bench.index.searches import (
    WANTED,
    Corpus,
    K,
    Search,
    by_engine,
    fill,
    recall,
    topic_mixture,
    true_nearest,
)
from bench.reports.environment import describe
from serving.composition.index_engine import engine_maker
from serving.config.settings import IndexSettings
from serving.ports.embedding import Vector

WARM_UPS = 5
SIDE_BY_SIDE = 16
FULL, TINY = ((100_000, 1_000_000), 1024), ((1_100,), 16)
"""Rows and dimension."""


@click.command(context_settings=HELP)
@click.option("--device", default="cuda", show_default=True, help="As torch names it.")
@click.option("--tiny", is_flag=True, help="Few rows: proves the script, no speed.")
@click.option("--rows", "sizes", multiple=True, type=click.IntRange(min=1_100), help="Sizes.")
@click.option("--out", type=click.Path(path_type=Path), help="A folder for the results.")
def main(device: str, tiny: bool, sizes: Sequence[int], out: Path | None) -> None:
    """Measure the vector index on a device, over made-up vectors."""
    require_device(device)
    on = torch.device(device)
    speed = speed_of(on, "float32" if on.type == "cpu" else "float16")
    about = {**describe(), **about_device(on, speed)}
    rows, dimension = TINY if tiny else FULL
    folder = out or run_folder("gpu-index")
    folder.mkdir(parents=True, exist_ok=True)
    for size in sizes or rows:
        for result in results(topic_mixture(size, dimension), on, speed.bytes_per_s):
            append_record(folder, result.as_record(about))
            click.echo(f"{result.parameters} {result.latency} {result.measured}")
    click.echo(f"written to {folder}")


def results(corpus: Corpus, device: torch.device, bytes_per_s: float) -> Iterator[Result]:
    """Measures an index in every way, from vectors on the host to rows there."""
    rows, dimension = corpus.vectors.shape
    shape: dict[str, Json] = {"rows": rows, "dimension": dimension}
    true = true_nearest(corpus)
    on_device = torch.from_numpy(corpus.vectors).half().to(device)

    def product(query: Vector) -> list[int]:
        scores = on_device @ torch.from_numpy(query).half().to(device)
        return [int(row) for row in torch.topk(scores.float(), K).indices.cpu()]

    def result(way: str, search: Search, **about: Json) -> Result:
        for query in corpus.queries[:WARM_UPS]:
            search(query)
        seconds, found = [], []
        for query in corpus.queries:
            started = time.perf_counter()
            found.append(search(query))
            seconds.append(time.perf_counter() - started)
        return Result(
            scenario="index",
            parameters={"way": way, **shape},
            n=len(seconds),
            throughput_per_s=round(len(seconds) / sum(seconds), 1),
            latency=Latency.of(seconds),
            measured={"recall": round(recall(found, true), 4), **about},
        )

    yield result("product", product, floor_ms=round(on_device.nbytes / bytes_per_s * 1e3, 4))
    settings = IndexSettings.model_validate({"kind": "ivf", "device": str(device)})
    engine = engine_maker(settings, dimension)()
    fill(engine, corpus.vectors)
    yield result("exact", by_engine(engine))
    started = time.perf_counter()
    engine.maintain()
    yield result("lists", by_engine(engine), build_s=round(time.perf_counter() - started, 2))

    def timed(query: Vector) -> float:
        started = time.perf_counter()
        engine.search(query, WANTED)
        return time.perf_counter() - started

    started = time.perf_counter()
    with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
        seconds = list(threads.map(timed, corpus.queries))
    yield Result(
        scenario="index side by side",
        parameters={"callers": SIDE_BY_SIDE, **shape},
        n=len(seconds),
        throughput_per_s=round(len(seconds) / (time.perf_counter() - started), 1),
        latency=Latency.of(seconds),
    )


if __name__ == "__main__":
    main()
