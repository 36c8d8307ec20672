"""Measures the vector index on a GPU: `python -m bench.gpu.index --help`.

The index is the one that a replica serves. It is searched exactly and in lists, one question at a
time, many at once, by sixteen callers side by side, and while the lists are rebuilt. A plain matrix
product over the same rows, and the time to read them once, are the measure of both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import numpy as np
import torch

from bench.gpu.devices import device_option
from bench.gpu.networks.floors import about_device, speed_of
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
    rebuilt_under_load,
    recall,
    topic_mixture,
    true_nearest,
)
from bench.reports.environment import describe
from serving.composition.index_engine import engine_maker
from serving.config.settings import IndexSettings
from serving.pipeline.index.search_queue import SearchQueue
from serving.ports.embedding import Vector
from serving.ports.index_engine import IndexEngine

WARM_UPS = 5
ROUNDS = 50
AT_ONCE, CALLERS = 32, 16
REBUILD_PER_S, QUIET_S = 100.0, 5.0
"""Searches while lists are rebuilt, and for how long there are as many before."""
FULL, TINY = ((100_000, 1_000_000), 1024), ((1_100,), 16)
"""Rows and dimension."""


@click.command(context_settings=HELP)
@device_option
@click.option("--tiny", is_flag=True, help="Few rows: proves the script, no speed.")
@click.option("--rows", "sizes", multiple=True, type=click.IntRange(min=1_100), help="Sizes.")
@click.option("--out", type=click.Path(path_type=Path), help="A folder for the results.")
def main(device: str, tiny: bool, sizes: Sequence[int], out: Path | None) -> None:
    """Measure the vector index on a device, over made-up vectors."""
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

    yield from _together(engine, corpus, shape)
    yield rebuilt_under_load(engine, corpus, REBUILD_PER_S, QUIET_S)


def _together(engine: IndexEngine, corpus: Corpus, shape: dict[str, Json]) -> Iterator[Result]:
    """Measures searches of the lists at once, and those of callers in one event loop."""
    batch, seconds = [(query, WANTED) for query in corpus.queries[:AT_ONCE]], []
    for _ in range(WARM_UPS + ROUNDS):
        started = time.perf_counter()
        engine.search_all(batch)
        seconds.append(time.perf_counter() - started)
    seconds = seconds[WARM_UPS:]
    yield Result(
        scenario="index",
        parameters={"way": "lists", "batch": AT_ONCE, **shape},
        n=len(seconds),
        throughput_per_s=round(AT_ONCE * len(seconds) / sum(seconds), 1),
        latency=Latency.of(seconds),
    )
    started = time.perf_counter()
    seconds = asyncio.run(_of_callers(engine, corpus))
    yield Result(
        scenario="index side by side",
        parameters={"callers": CALLERS, **shape},
        n=len(seconds),
        throughput_per_s=round(len(seconds) / (time.perf_counter() - started), 1),
        latency=Latency.of(seconds),
    )


async def _of_callers(engine: IndexEngine, corpus: Corpus) -> list[float]:
    """The times of searches whose callers wait for one before the next."""
    queue, seconds = SearchQueue(), []

    async def caller(number: int) -> None:
        for query in np.roll(corpus.queries, number, axis=0):
            started = time.perf_counter()
            await queue.search(engine, query, WANTED)
            seconds.append(time.perf_counter() - started)

    await asyncio.gather(*map(caller, range(CALLERS)))
    return seconds


if __name__ == "__main__":
    main()
