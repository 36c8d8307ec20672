"""Measures the vector index on a GPU: `python -m bench.gpu.index --help`.

The index is the one that a replica serves. It is searched exactly and in lists, one question at a
time, many at once, by sixteen callers side by side, and while the lists are rebuilt. A plain matrix
product over the same rows, and the time to read them once, are the measure of both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import click
import numpy as np
import torch

from bench.gpu.networks.floors import about_device, speed_of
from bench.harness import options
from bench.harness.results import Latency, Result, run_folder
from bench.index import searches
from bench.reports.recording import record_all
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


@click.command(context_settings=options.HELP)
@options.device
@options.tiny
@click.option("--rows", "sizes", multiple=True, type=click.IntRange(min=1_100), help="Sizes.")
@click.option("--out", type=click.Path(path_type=Path), help="A folder for the results.")
def main(device: str, tiny: bool, sizes: Sequence[int], out: Path | None) -> None:
    """Measure the vector index on a device, over made-up vectors."""
    on = torch.device(device)
    speed = speed_of(on, "float32" if on.type == "cpu" else "float16")
    rows, dimension = TINY if tiny else FULL
    made = (
        result
        for size in sizes or rows
        for result in results(searches.topic_mixture(size, dimension), on, speed.bytes_per_s)
    )
    record_all(made, out or run_folder("gpu-index"), about_device(on, speed))


def results(corpus: searches.Corpus, device: torch.device, bytes_per_s: float) -> Iterator[Result]:
    """Measures an index in every way, from vectors on the host to rows there."""
    on_device = torch.from_numpy(corpus.vectors).half().to(device)

    def product(query: Vector) -> list[int]:
        scores = on_device @ torch.from_numpy(query).half().to(device)
        return [int(row) for row in torch.topk(scores.float(), searches.K).indices.cpu()]

    result = partial(searches.of_search, corpus, searches.true_nearest(corpus))
    yield result("product", product, floor_ms=round(on_device.nbytes / bytes_per_s * 1e3, 4))
    settings = IndexSettings.model_validate({"kind": "ivf", "device": str(device)})
    engine = engine_maker(settings, corpus.vectors.shape[1])()
    searches.fill(engine, corpus.vectors)
    yield result("exact", searches.by_engine(engine))
    started = time.perf_counter()
    engine.maintain()
    yield result(
        "lists", searches.by_engine(engine), build_s=round(time.perf_counter() - started, 2)
    )

    batch, taken = [(query, searches.WANTED) for query in corpus.queries[:AT_ONCE]], []
    for _ in range(WARM_UPS + ROUNDS):
        started = time.perf_counter()
        engine.search_all(batch)
        taken.append(time.perf_counter() - started)
    yield Result(
        scenario="index",
        parameters={"way": "lists", "batch": AT_ONCE, **searches.shape_of(corpus)},
        n=ROUNDS,
        throughput_per_s=round(AT_ONCE * ROUNDS / sum(taken[WARM_UPS:]), 1),
        latency=Latency.of(taken[WARM_UPS:]),
    )
    started = time.perf_counter()
    taken = asyncio.run(_of_callers(engine, corpus))
    yield Result(
        scenario="index side by side",
        parameters={"callers": CALLERS, **searches.shape_of(corpus)},
        n=len(taken),
        throughput_per_s=round(len(taken) / (time.perf_counter() - started), 1),
        latency=Latency.of(taken),
    )
    yield searches.rebuilt_under_load(engine, corpus, REBUILD_PER_S, QUIET_S)


async def _of_callers(engine: IndexEngine, corpus: searches.Corpus) -> list[float]:
    """The times of searches whose callers wait for one before the next."""
    queue, seconds = SearchQueue(), []

    async def caller(number: int) -> None:
        for query in np.roll(corpus.queries, number, axis=0):
            started = time.perf_counter()
            await queue.search(engine, query, searches.WANTED)
            seconds.append(time.perf_counter() - started)

    await asyncio.gather(*map(caller, range(CALLERS)))
    return seconds


if __name__ == "__main__":
    main()
