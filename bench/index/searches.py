"""Measures the vector index on a CPU: `make bench-index`.

`python -m bench.index.searches --help` lists the options.

Each corpus is searched in three ways, one query at a time: exactly; by the served index, which has
lists, a tail and scores in float32; and by FAISS alone with the same number of lists. Times are
CPU times of the searching thread. Recall is relative to a scan in float32. The lists are then
rebuilt while they are searched on a schedule; `--rebuild-only` does only this.

The corpora are topic mixtures of any size, and real texts: mixtures show how the index grows, and
texts how real vectors behave.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bench.harness.collection import read_collection
from bench.harness.latency import Latency
from bench.harness.results import (
    Json,
    Record,
    Result,
    append_record,
    run_folder,
    select,
    table,
)
from bench.index.load import (
    BATCH_ROWS,
    TENANT,
    K,
    Load,
    fill,
    rebuilt_under_load,
    search,
)
from bench.index.tables import ALONE, EXACT, REBUILT, SERVED, summary
from bench.reports.environment import describe
from bench.reports.plots import COLOURS, INK, head, prepare
from serving.adapters.vector_index import ExactIndex, TieredIndex
from serving.adapters.vector_index.lists.faiss_lists import FaissLibrary
from serving.adapters.vector_index.tuning.policy import IndexPolicy
from serving.composition.models import open_embedder
from serving.config.settings import load_settings
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemKind
from serving.ports.embedding import Vector, Vectors
from serving.ports.index_engine import IndexEngine
from serving.ports.vector_index import IndexTier
from serving.telemetry import NoRecorder

QUESTIONS = 200
WARM_UPS = 20

TOPICS = 4000
SPREAD = 1.0
"""The length of what is random in a vector by that of its topic: a cosine of .5 within one."""

TARGETS_MS = {10_000: 0.6, 100_000: 2.0, 1_000_000: 4.0}
"""Goals of the CPU time of a search, by rows; of what is between, that of the next size."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """What is searched, and with what.

    `vectors`: float32 (n, dimension), `queries`: float32 (b, dimension), all of unit length.
    """

    name: str
    vectors: Vectors
    queries: Vectors


def topic_mixture(rows: int, dimension: int, seed: int = 0) -> Corpus:
    """Unit vectors about topics of unequal size, and questions about the same topics.

    There are 4,000 topics; the r-th of them has a share of 1 / (r + 10).

    Args:
        rows: How many vectors.
        dimension: Of each.
        seed: Of the random numbers.
    """
    random = np.random.default_rng(seed)
    topics = unit(random.standard_normal((TOPICS, dimension), dtype=np.float32))
    weights = 1 / np.arange(10, TOPICS + 10)
    weights /= weights.sum()

    def draw(wanted: int) -> Vectors:
        topic = random.choice(TOPICS, wanted, p=weights)
        drawn = np.empty((wanted, dimension), np.float32)
        # Block by block: what lies in between takes several times the memory of what is wanted.
        for start in range(0, wanted, BATCH_ROWS):
            its = topics[topic[start : start + BATCH_ROWS]]
            noise = random.standard_normal(its.shape, dtype=np.float32)
            drawn[start : start + BATCH_ROWS] = unit(its + SPREAD / np.sqrt(dimension) * noise)
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
        for memory in collection.memories.values():
            texts += [f"{segment.speaker}: {segment.text}" for segment in memory.segments]
        questions += [query.text for query in collection.judged]
    chosen = np.random.default_rng(0).permutation(len(questions))[:QUESTIONS]
    async with open_embedder(load_settings(), NoRecorder()) as embedder:
        rows: list[Vectors] = []
        with click.progressbar(range(0, len(texts), 256), label="embedding") as starts:
            for start in starts:
                rows += await embedder.embed_documents(texts[start : start + 256])
        asked = [await embedder.embed_query(questions[each], Deadline.after(60)) for each in chosen]
    vectors = np.concatenate(rows)
    return Corpus(f"texts of {len(folders)} sets, {len(vectors):,}", vectors, np.stack(asked))


# ---------------------------------------------------------------- ways to search

Search = Callable[[Vector], Sequence[int]]


class Way(NamedTuple):
    """A way to search a corpus: the search, which returns row numbers, and its properties.

    `rebuilds` is the engine that can rebuild its lists, if the way has one.
    """

    name: str
    search: Search
    about: dict[str, Json]
    rebuilds: IndexEngine | None = None


def ways(corpus: Corpus, recall_target: float) -> Iterator[Way]:
    """Every way, made lazily."""
    exact = ExactIndex(corpus.vectors.shape[1])
    seconds = fill(exact, corpus.vectors)
    yield Way(EXACT, by_engine(exact), {"fill_s": round(seconds, 2)})
    del exact

    served, tier, about = in_lists(corpus, recall_target)
    yield Way(SERVED, by_engine(served), about, served)

    library = FaissLibrary()
    rows = torch.from_numpy(corpus.vectors).half()
    sample = np.random.default_rng(0).permutation(len(rows))[: 128 * tier.n_lists]
    lists = library.train(rows[torch.from_numpy(sample)], tier.n_lists)
    lists.extend(rows, torch.arange(len(rows)))

    def alone(vector: Vector) -> list[int]:
        found = lists.search(torch.from_numpy(vector)[None], K, tier.n_probes, None)
        return [int(slot) for slot in found.slots[0]]

    yield Way(ALONE, alone, {"n_lists": tier.n_lists, "n_probes": tier.n_probes})
    lists.close()


def in_lists(
    corpus: Corpus, recall_target: float
) -> tuple[TieredIndex, IndexTier, dict[str, Json]]:
    """The corpus in a served index with all rows in lists, its tier, and its properties."""
    policy = IndexPolicy(exact_max_rows=1, recall_target=recall_target)
    engine = TieredIndex(corpus.vectors.shape[1], FaissLibrary(), policy)
    filled_s = fill(engine, corpus.vectors)
    started = time.perf_counter()
    engine.maintain()
    [tier] = [tier for tier in engine.tiers(TENANT) if tier.kind is ItemKind.SEGMENT]
    curve: Json = [
        {"n_probes": each.n_probes, "recall": round(each.recall, 4), "share": round(each.share, 5)}
        for each in tier.curve
    ]
    about: dict[str, Json] = {
        "fill_s": round(filled_s, 2),
        "build_s": round(time.perf_counter() - started, 2),
        "n_lists": tier.n_lists,
        "n_probes": tier.n_probes,
        "memory_bytes": tier.memory_bytes,
        "curve": curve,
    }
    return engine, tier, about


def by_engine(engine: IndexEngine) -> Search:
    """Searches of an engine, as row numbers."""

    def numbers(vector: Vector) -> list[int]:
        return [int(candidate.item.id) for candidate in search(engine, vector).candidates]

    return numbers


# ---------------------------------------------------------------- measuring


def measured(corpus: Corpus, recall_target: float, load: Load) -> Iterator[Result]:
    """A result for each way, and one of a rebuild."""
    floor_s = scan_floor_s(corpus.vectors)
    truth = true_nearest(corpus)
    for way in ways(corpus, recall_target):
        for query in corpus.queries[:WARM_UPS]:
            way.search(query)
        cpu, wall, found = zip(*(timed(way.search, query) for query in corpus.queries), strict=True)
        yield Result(
            scenario="index",
            parameters={
                "corpus": corpus.name,
                "rows": len(corpus.vectors),
                "dimension": corpus.vectors.shape[1],
                "way": way.name,
                "k": K,
                "batch": 1,
            },
            n=len(corpus.queries),
            latency=Latency.of(wall),
            measured={
                "cpu_ms": round(Latency.of(cpu).p50_ms, 3),
                "recall": round(recall(found, truth), 4),
                "scan_floor_ms": round(floor_s * 1e3, 3),
                "goal_ms": goal_ms(len(corpus.vectors)),
                **way.about,
            },
        )
        if way.rebuilds is not None:
            yield rebuilt_under_load(way.rebuilds, corpus.vectors, corpus.queries, load)


def rebuilt(corpus: Corpus, recall_target: float, load: Load) -> Result:
    """A result of a rebuild, without those of the ways."""
    engine, _, about = in_lists(corpus, recall_target)
    result = rebuilt_under_load(engine, corpus.vectors, corpus.queries, load)
    return replace(result, measured={**result.measured, **about})


def timed(search: Search, query: Vector) -> tuple[float, float, Sequence[int]]:
    """The CPU seconds of this thread, those that passed, and what was found."""
    wall, cpu = time.perf_counter(), time.thread_time()
    found = search(query)
    return time.thread_time() - cpu, time.perf_counter() - wall, found


def true_nearest(corpus: Corpus) -> NDArray[np.int64]:
    """The rows of the largest products in float32: int64 (b, k)."""
    scores = torch.from_numpy(corpus.queries) @ torch.from_numpy(corpus.vectors).T
    nearest: NDArray[np.int64] = torch.topk(scores, K).indices.numpy()
    return nearest


def recall(found: Sequence[Sequence[int]], truth: NDArray[np.int64]) -> float:
    """The mean share of the true nearest that was found: recall@k."""
    shares = [
        len(set(rows) & set(true)) / K for rows, true in zip(found, truth.tolist(), strict=True)
    ]
    return float(np.mean(shares))


def scan_floor_s(vectors: Vectors) -> float:
    """The least time of reading all rows once as float16, at the bandwidth of one thread."""
    size = 2 * vectors.size
    buffer = np.ones(min(size, 2**29), np.uint8).view(np.uint64)
    best = min(timed_sum(buffer) for _ in range(5))
    return best * size / buffer.nbytes


def timed_sum(buffer: NDArray[np.uint64]) -> float:
    """The CPU seconds of reading a buffer once."""
    started = time.thread_time()
    np.bitwise_or.reduce(buffer)
    return time.thread_time() - started


def goal_ms(rows: int) -> float | None:
    """The goal of the served way for so many rows; None beyond all of them."""
    return next((goal for size, goal in TARGETS_MS.items() if rows <= size), None)


# ---------------------------------------------------------------- reporting


def save_curves(records: Sequence[Record], path: Path) -> None:
    """Draws recall by the share of rows that is read, a line for each corpus."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    prepare(axes)
    ways = select(records, "index")
    served = [each for each in ways if table(each, "parameters")["way"] == SERVED]
    for record, colour in zip(served, COLOURS, strict=False):
        curve = table(record, "measured")["curve"]
        assert isinstance(curve, list)
        shares = [100 * point["share"] for point in curve]
        name = str(table(record, "parameters")["corpus"])
        axes.plot(shares, [point["recall"] for point in curve], "o-", color=colour, label=name)
    axes.set_xscale("log")
    axes.set_ylabel("recall@10", color=INK)
    axes.legend(frameon=False, labelcolor=INK)
    head(axes, "What probing more lists brings", "rows read, % of all")
    figure.savefig(path, dpi=130, facecolor="white")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "folders",
    nargs=-1,
    metavar="[FOLDER]...",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)
@click.option(
    "--rows",
    multiple=True,
    type=click.IntRange(min=100),
    default=(10_000, 100_000, 1_000_000),
    show_default=True,
    help="Sizes of mixtures.",
)
@click.option("--dimension", default=384, show_default=True, help="Of the mixtures' vectors.")
@click.option("--recall-target", default=0.98, show_default=True, help="Of the lists.")
@click.option("--per-s", default=50.0, show_default=True, help="Searches while it is rebuilt.")
@click.option("--quiet-s", default=10.0, show_default=True, help="Seconds of them before.")
@click.option("--rebuild-only", is_flag=True, help="Of each corpus the rebuild, and no way apart.")
@click.option("--out", type=click.Path(path_type=Path), help="A folder for the results.")
def main(
    folders: Sequence[Path],
    rows: Sequence[int],
    dimension: int,
    recall_target: float,
    per_s: float,
    quiet_s: float,
    rebuild_only: bool,
    out: Path | None,
) -> None:
    """Measure the index over topic mixtures, and over the texts of each FOLDER together."""
    torch.set_num_threads(1)
    out = out or run_folder("index")
    out.mkdir(parents=True, exist_ok=True)
    environment = describe()
    load = Load(per_s=per_s, quiet_s=quiet_s)
    records: list[Record] = []
    for corpus in corpora(folders, rows, dimension):
        click.echo(f"{corpus.name}: building")
        results: Iterable[Result] = (
            [rebuilt(corpus, recall_target, load)]
            if rebuild_only
            else measured(corpus, recall_target, load)
        )
        for result in results:
            records.append(result.as_record(environment))
            append_record(out, records[-1])
            click.echo(f"  {progress_line(result)}")
    text = f"# The vector index at {environment['commit']}\n\n{summary(records)}\n"
    (out / "summary.md").write_text(text, encoding="utf-8")
    if not rebuild_only:
        save_curves(records, out / "curves.png")
    click.echo(f"\n{text}\nwritten to {out}")


def progress_line(result: Result) -> str:
    """The progress line of a result."""
    if result.scenario == REBUILT:
        return f"rebuilt meanwhile: p99 {result.measured['p99_ratio']} times that before"
    return f"{result.parameters['way']}: {result.measured['cpu_ms']} ms CPU"


def corpora(folders: Sequence[Path], rows: Sequence[int], dimension: int) -> Iterator[Corpus]:
    """The corpora, made lazily."""
    if folders:
        yield asyncio.run(embedded(folders))
    for size in rows:
        yield topic_mixture(size, dimension)


if __name__ == "__main__":
    main()
