"""Measures the vector index on a GPU: `python -m bench.gpu.index --help`.

The index is the one that a replica serves, filled with a mixture of topics. It is searched exactly
and in lists: one question at a time, and sixteen threads side by side. A plain matrix product over
the same rows, and the time to read them once, are the measure of both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click
import numpy as np
import torch

from bench.gpu.device import about_device, require_device, speed_of
from bench.gpu.networks.floors import wait_for
from bench.harness.latency import Latency
from bench.harness.results import Json, Result, append_record, run_folder
from bench.reports.environment import describe
from serving.composition.index_engine import engine_maker
from serving.config.settings import IndexSettings
from serving.domain.items.records import ItemKind, TenantName, segment_id
from serving.domain.questions.query import Scope
from serving.ports.embedding import Vector, Vectors
from serving.ports.index_engine import IndexEngine, IndexRow
from serving.ports.vector_index import WantedNeighbours

TENANT = TenantName("bench")
K = 10
WANTED = WantedNeighbours(
    ItemKind.SEGMENT, Scope(tenant=TENANT, as_of=datetime(2026, 1, 1, tzinfo=UTC)), K
)
TOPICS = 4000
QUESTIONS = 200
WARM_UPS = 5
SIDE_BY_SIDE = 16
BATCH_ROWS = 10_000
FULL, TINY = ((100_000, 1_000_000), 1024), ((1_100,), 16)
"""Rows and dimension."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
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
        for result in results(on, size, dimension, speed.bytes_per_s):
            times = result.latency
            assert times is not None, "searches are timed; this is a bug"
            measured = ", ".join(f"{name} {value}" for name, value in result.measured.items())
            click.echo(
                f"{result.scenario} {dict(result.parameters)}: "
                f"p50 {times.p50_ms} ms, p99 {times.p99_ms} ms, {measured}"
            )
            append_record(folder, result.as_record(about))
    click.echo(f"written to {folder}")


def results(
    device: torch.device, size: int, dimension: int, bytes_per_s: float
) -> Iterator[Result]:
    """Measures an index of a size in every way."""
    vectors, queries = mixture(size, dimension)
    on_device = torch.from_numpy(vectors).half().to(device)

    def product(query: Vector) -> list[int]:
        scores = on_device @ torch.from_numpy(query).half().to(device)
        return [int(row) for row in torch.topk(scores.float(), K).indices.cpu()]

    true = [np.argsort(-(vectors @ query), kind="stable")[:K].tolist() for query in queries]
    measured = partial(timed, device=device, queries=queries, true=true)
    floor_ms = round(on_device.nbytes / bytes_per_s * 1e3, 4)
    shape: dict[str, Json] = {"rows": size, "dimension": dimension}
    yield measured("product", product, shape, {"floor_ms": floor_ms})
    settings = IndexSettings.model_validate({"kind": "ivf", "device": str(device)})
    engine = engine_maker(settings, dimension)()
    fill(engine, vectors)
    yield measured("exact", partial(found, engine), shape, {})
    started = time.perf_counter()
    engine.maintain()
    build_s = round(time.perf_counter() - started, 2)
    yield measured("lists", partial(found, engine), shape, {"build_s": build_s})
    yield side_by_side(engine, queries, shape)


def mixture(rows: int, dimension: int) -> tuple[Vectors, Vectors]:
    """Unit vectors about topics of unequal size, and questions about the same topics."""
    random = np.random.default_rng(0)
    topics = random.standard_normal((TOPICS, dimension), dtype=np.float32)
    weights = 1 / np.arange(10, TOPICS + 10)

    def drawn(wanted: int) -> Vectors:
        vectors = topics[random.choice(TOPICS, wanted, p=weights / weights.sum())]
        vectors += random.standard_normal(vectors.shape, dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    return drawn(rows), drawn(QUESTIONS)


def fill(engine: IndexEngine, vectors: Vectors) -> None:
    """Writes the vectors, whose numbers are their ids."""
    halves = vectors.astype(np.float16)
    for start in range(0, len(halves), BATCH_ROWS):
        engine.apply(
            [
                IndexRow(tenant=TENANT, item=segment_id(str(number)), vectors=vector[None])
                for number, vector in enumerate(halves[start : start + BATCH_ROWS], start)
            ],
            [],
        )


def found(engine: IndexEngine, query: Vector) -> list[int]:
    """The numbers of the nearest vectors."""
    return [int(each.item.id) for each in engine.search(query, WANTED).candidates]


def timed(
    way: str,
    search: Callable[[Vector], list[int]],
    shape: dict[str, Json],
    about: dict[str, Json],
    *,
    device: torch.device,
    queries: Vectors,
    true: Sequence[Sequence[int]],
) -> Result:
    """Times questions one by one, from vectors on the host to rows there."""
    seconds, hits = [], 0
    for query in queries[:WARM_UPS]:
        search(query)
    for query, nearest in zip(queries, true, strict=True):
        wait_for(device)
        started = time.perf_counter()
        rows = search(query)
        seconds.append(time.perf_counter() - started)
        hits += len(set(rows) & set(nearest))
    return Result(
        scenario="index",
        parameters={"way": way, **shape},
        n=len(seconds),
        throughput_per_s=round(len(seconds) / sum(seconds), 1),
        latency=Latency.of(seconds),
        measured={"recall": round(hits / (K * len(seconds)), 4), **about},
    )


def side_by_side(engine: IndexEngine, queries: Vectors, shape: dict[str, Json]) -> Result:
    """Times searches of several threads, each of which waits for its answer."""

    def ask(query: Vector) -> float:
        started = time.perf_counter()
        engine.search(query, WANTED)
        return time.perf_counter() - started

    started = time.perf_counter()
    with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
        seconds = list(threads.map(ask, queries))
    return Result(
        scenario="index side by side",
        parameters={"callers": SIDE_BY_SIDE, **shape},
        n=len(seconds),
        throughput_per_s=round(len(seconds) / (time.perf_counter() - started), 1),
        latency=Latency.of(seconds),
    )


if __name__ == "__main__":
    main()
