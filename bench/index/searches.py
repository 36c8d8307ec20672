"""Measures the vector index on a CPU: `make bench-index`.

Each corpus is searched one query at a time: exactly, by the served index with all rows in lists,
and by its lists alone with other numbers of probes (`--probes`), from which the table of
`serving/adapters/vector_index/rule.py` is made. Times are CPU times of the searching thread, recall
is relative to a scan in float32. Then the lists are rebuilt while they are searched on a schedule.

The corpora are topic mixtures of any size, and real texts: mixtures show how the index grows, and
texts how real vectors behave.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from bench.harness import options
from bench.harness.collection import read_collection
from bench.harness.results import Json, Latency, Result, run_folder
from bench.reports.recording import record_all
from serving.adapters.vector_index import ExactIndex, IndexRule, TieredIndex
from serving.adapters.vector_index.lists import CpuLibrary
from serving.adapters.vector_index.rule import EXTRA_CANDIDATES, n_probes
from serving.composition.models import open_embedder
from serving.config.settings import load_settings
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemKind, TenantName, segment_id
from serving.domain.questions.query import Scope
from serving.ports.embedding import Vector, Vectors
from serving.ports.index_engine import IndexEngine, IndexRow
from serving.ports.vector_index import WantedNeighbours
from serving.telemetry import NoRecorder

TENANT = TenantName("bench")
K = 10
WANTED = WantedNeighbours(
    ItemKind.SEGMENT, Scope(tenant=TENANT, as_of=datetime(2026, 1, 1, tzinfo=UTC)), K
)
QUESTIONS = 200
WARM_UPS = 20
TOPICS = 4000
BATCH_ROWS = 10_000
REBUILD_PER_S, QUIET_S = 50.0, 10.0
"""Searches while lists are rebuilt, and for how long there are as many before."""

CALLERS = 2
"""Threads that search during a rebuild; a replica of the service has two."""

Search = Callable[[Vector], Sequence[int]]
"""Returns row numbers."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The rows to search, float32 (n, dimension), and queries, float32 (b, dimension)."""

    name: str
    vectors: Vectors
    queries: Vectors


def topic_mixture(rows: int, dimension: int) -> Corpus:
    """Unit vectors about topics of unequal size, and questions about the same topics.

    There are 4,000 topics; the r-th of them has a share of 1 / (r + 10). The cosine of two vectors
    of a topic is .5.
    """
    random = np.random.default_rng(0)
    topics = unit(random.standard_normal((TOPICS, dimension), dtype=np.float32))
    weights = 1 / np.arange(10, TOPICS + 10)

    def draw(wanted: int) -> Vectors:
        topic = random.choice(TOPICS, wanted, p=weights / weights.sum())
        drawn = np.empty((wanted, dimension), np.float32)
        # Block by block: what lies in between takes several times the memory of what is wanted.
        for start in range(0, wanted, BATCH_ROWS):
            its = topics[topic[start : start + BATCH_ROWS]]
            noise = random.standard_normal(its.shape, dtype=np.float32)
            drawn[start : start + BATCH_ROWS] = unit(its + noise / np.sqrt(dimension))
        return drawn

    return Corpus(f"mixture of {rows:,}", draw(rows), draw(QUESTIONS))


def unit(vectors: Vectors) -> Vectors:
    """The vectors at length 1."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / length, dtype=np.float32)


async def embedded(folders: Sequence[Path]) -> Corpus:
    """The texts of collections and their questions, by the embedder of the settings."""
    texts: list[str] = []
    questions: list[str] = []
    for folder in folders:
        collection = read_collection(folder)
        texts += [f"{segment.speaker}: {segment.text}" for segment in collection.segments]
        questions += [query.text for query in collection.judged]
    chosen = np.random.default_rng(0).permutation(len(questions))[:QUESTIONS]
    async with open_embedder(load_settings(), NoRecorder()) as embedder:
        rows: list[Vectors] = []
        for start in range(0, len(texts), 256):
            made = await embedder.embed_documents(texts[start : start + 256])
            rows += [each.vectors for each in made]
        queries = [
            await embedder.embed_query(questions[each], Deadline.after(60)) for each in chosen
        ]
    vectors = np.concatenate(rows)
    return Corpus(f"texts of {len(folders)} sets, {len(vectors):,}", vectors, np.stack(queries))


# ---------------------------------------------------------------- measuring


def measured(corpus: Corpus, probes: Sequence[int]) -> Iterator[Result]:
    """A result for each search of a corpus, and one of a rebuild."""
    dimension = corpus.vectors.shape[1]
    floor: dict[str, Json] = {"scan_floor_ms": round(scan_floor_s(corpus.vectors) * 1e3, 3)}
    result = partial(of_search, corpus, true_nearest(corpus))

    exact = ExactIndex(dimension)
    fill(exact, corpus.vectors)
    yield result("exact", by_engine(exact), **floor)
    del exact

    engine = TieredIndex(dimension, CpuLibrary(), IndexRule(max_scanned_rows=1))
    fill(engine, corpus.vectors)
    started = time.perf_counter()
    engine.maintain()
    build_s = round(time.perf_counter() - started, 2)
    partition = engine.partition(TENANT, ItemKind.SEGMENT)
    assert partition is not None, "the engine has no rows; this is a bug"
    view = partition.view
    assert view.trained is not None, "the rows are in no lists; this is a bug"
    lists = view.trained.lists
    chosen = n_probes(view.count, lists.n_lists, 1.0)
    about: dict[str, Json] = {**floor, "n_lists": lists.n_lists}
    yield result("served", by_engine(engine), **about, n_probes=chosen, build_s=build_s)

    for count in probes:

        def alone(query: Vector, count: int = count) -> Sequence[int]:
            slots = lists.search(query[None], K + EXTRA_CANDIDATES, count, None)[0]
            slots = slots[slots >= 0]
            best = np.argsort(-(view.vectors[slots].astype(np.float32) @ query))[:K]
            return [int(view.columns.items[slot].id) for slot in slots[best]]

        yield result(f"{count} lists", alone, **about, n_probes=count)
    yield rebuilt_under_load(engine, corpus, REBUILD_PER_S, QUIET_S)


def fill(engine: IndexEngine, vectors: Vectors) -> None:
    """Writes the vectors with numbers as ids."""
    halves = vectors.astype(np.float16)
    for start in range(0, len(halves), BATCH_ROWS):
        part = enumerate(halves[start : start + BATCH_ROWS], start)
        engine.apply([row(str(number), vector) for number, vector in part], [])


def row(name: str, vector: NDArray[np.float16]) -> IndexRow:
    """A row with one vector."""
    return IndexRow(tenant=TENANT, item=segment_id(name), vectors=vector[None])


def by_engine(engine: IndexEngine) -> Search:
    """Searches of an engine, as row numbers."""
    return lambda query: [int(each.item.id) for each in engine.search(query, WANTED).candidates]


def of_search(
    corpus: Corpus, truth: Sequence[Sequence[int]], way: str, search: Search, **about: Json
) -> Result:
    """Searches for each query, one at a time: CPU time of this thread, latency and recall."""
    for query in corpus.queries[:WARM_UPS]:
        search(query)
    cpu, wall, found = [], [], []
    for query in corpus.queries:
        started, spent = time.perf_counter(), time.thread_time()
        found.append(search(query))
        cpu.append(time.thread_time() - spent)
        wall.append(time.perf_counter() - started)
    return Result(
        scenario="index",
        parameters={"corpus": corpus.name, **shape_of(corpus), "way": way},
        n=len(wall),
        throughput_per_s=round(len(wall) / sum(wall), 1),
        latency=Latency.of(wall),
        measured={
            "cpu_ms": Latency.of(cpu).p50_ms,
            "recall": round(recall(found, truth), 4),
            **about,
        },
    )


def shape_of(corpus: Corpus) -> dict[str, Json]:
    """The rows and the dimension of a corpus."""
    rows, dimension = corpus.vectors.shape
    return {"rows": rows, "dimension": dimension}


def true_nearest(corpus: Corpus) -> list[list[int]]:
    """The rows of the largest products in float32, by query."""
    scores = [corpus.vectors @ query for query in corpus.queries]
    return [np.argpartition(-each, K)[:K].tolist() for each in scores]


def recall(found: Sequence[Sequence[int]], truth: Sequence[Sequence[int]]) -> float:
    """The mean share of the true nearest that was found: recall@k."""
    pairs = zip(found, truth, strict=True)
    return float(np.mean([len(set(rows) & set(true)) / K for rows, true in pairs]))


def scan_floor_s(vectors: Vectors) -> float:
    """The least time of reading all rows once as float16, at the bandwidth of one thread."""
    size = 2 * vectors.size
    buffer = np.ones(min(size, 2**29), np.uint8).view(np.uint64)

    def read_once() -> float:
        started = time.thread_time()
        np.bitwise_or.reduce(buffer)
        return time.thread_time() - started

    return min(read_once() for _ in range(5)) * size / buffer.nbytes


# ---------------------------------------------------------------- a rebuild


def rebuilt_under_load(engine: IndexEngine, corpus: Corpus, per_s: float, quiet_s: float) -> Result:
    """Compares searches during a rebuild with those before it.

    More than a fifth of the rows is deleted at both times, which is the reason of the rebuild.
    """
    copied = corpus.vectors[: len(corpus.vectors) // 4 + 1].astype(np.float16)
    copies = [row(f"copy {number}", vector) for number, vector in enumerate(copied)]
    engine.apply(copies, [])
    engine.apply([], [(TENANT, each.item) for each in copies])
    with searching(engine, corpus.queries, per_s) as quiet:
        threading.Event().wait(quiet_s)
    started = time.perf_counter()
    with searching(engine, corpus.queries, per_s) as meanwhile:
        engine.maintain()
        rebuild_s = time.perf_counter() - started
    before, during = Latency.of(quiet), Latency.of(meanwhile)
    return Result(
        scenario="index while it is rebuilt",
        parameters={**shape_of(corpus), "per_s": per_s},
        n=len(meanwhile),
        latency=during,
        measured={
            "quiet_p50_ms": before.p50_ms,
            "quiet_p99_ms": before.p99_ms,
            "p99_ratio": round(during.p99_ms / before.p99_ms, 2),
            "rebuild_s": round(rebuild_s, 2),
        },
    )


@contextmanager
def searching(engine: IndexEngine, queries: Vectors, per_s: float) -> Iterator[list[float]]:
    """Searches on a schedule during the block; yields the latencies, from when each was due."""
    seconds: list[float] = []
    ended = threading.Event()
    started = time.perf_counter()

    def run(first: int) -> None:
        for number in itertools.count(first, CALLERS):
            due = started + number / per_s
            # Each thread searches at least once.
            if ended.wait(max(0.0, due - time.perf_counter())) and number != first:
                return
            began = min(due, time.perf_counter())
            engine.search(queries[number % len(queries)], WANTED)
            seconds.append(time.perf_counter() - began)

    with ThreadPoolExecutor(CALLERS) as threads:
        running = [threads.submit(run, first) for first in range(CALLERS)]
        try:
            yield seconds
        finally:
            ended.set()
        for each in running:
            each.result()


@click.command(context_settings=options.HELP)
@options.folders
@click.option(
    "--rows",
    multiple=True,
    type=click.IntRange(min=100),
    default=(100_000, 1_000_000),
    show_default=True,
    help="Sizes of mixtures.",
)
@click.option("--dimension", default=384, show_default=True, help="Of the mixtures' vectors.")
@click.option("--probes", multiple=True, type=click.IntRange(min=1), help="Of the lists alone.")
@click.option("--out", type=click.Path(path_type=Path), help="A folder for the results.")
def main(
    folders: Sequence[Path],
    rows: Sequence[int],
    dimension: int,
    probes: Sequence[int],
    out: Path | None,
) -> None:
    """Measure the index over topic mixtures, and over the texts of each FOLDER together."""

    def results() -> Iterator[Result]:
        if folders:
            yield from measured(asyncio.run(embedded(folders)), probes)
        for size in rows:
            yield from measured(topic_mixture(size, dimension), probes)

    record_all(results(), out or run_folder("index"), {})


if __name__ == "__main__":
    main()
