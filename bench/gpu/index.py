"""Measures the vector index on a GPU: `make bench-gpu`, or `python -m bench.gpu.index --help`.

The corpora are topic mixtures of two sizes, searched with one query at a time and with 32: by a
scan, as in the exact state, and by inverted lists. Both score again in float32 and are compared
with the time to read the data at the measured bandwidth. The break-even point between both is
computed from the two sizes. Then a served index is filled, written to and rebuilt under searches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import torch
from numpy.typing import NDArray

from bench.gpu.device import about_device, require_device, speed_of
from bench.gpu.networks.floors import Speed, wait_for
from bench.harness.latency import Latency
from bench.harness.results import Json, Result, append_record, run_folder
from bench.index.load import K, Load, fill, rebuilt_under_load, search, written_under_load
from bench.index.searches import Corpus, recall, topic_mixture, true_nearest
from bench.reports.environment import describe
from serving.adapters.vector_index import TieredIndex
from serving.adapters.vector_index.lists.faiss_lists import FaissLibrary
from serving.adapters.vector_index.lists.inverted_lists import InvertedLists, ListsLibrary
from serving.adapters.vector_index.lists.trained import Calibration
from serving.adapters.vector_index.rebuild import FILLED_AT_ONCE
from serving.adapters.vector_index.rows.exact_scan import LEAST_HEAD
from serving.adapters.vector_index.tuning.break_even import measured_exact_max_rows
from serving.adapters.vector_index.tuning.calibration import calibrate, ground_truth
from serving.adapters.vector_index.tuning.costs import Line, exact_max_rows
from serving.adapters.vector_index.tuning.policy import (
    LEAST_EXTRA_CANDIDATES,
    IndexPolicy,
    training_rows,
)
from serving.composition.index_engine import Gpus, engine_maker
from serving.config.settings import IndexSettings

BATCHES = (1, 32)
WARM_UPS = 5
EXACT, LISTS = "exact", "lists"
SIDE_BY_SIDE = 16
"""Threads that search at once."""

GOALS_MS = {(LISTS, 100_000, 1): 0.17, (LISTS, 100_000, 32): 0.4}
"""Of the median, by way, rows and batch."""

GOALS_BY_FLOOR = {(EXACT, 100_000, 1): 3.0, (EXACT, 1_000_000, 1): 1.6}
"""The same by the floor."""


class Sizes(NamedTuple):
    """How much is measured."""

    rows: tuple[int, ...]
    dimension: int
    rounds: int
    writes: int
    load: Load


FULL = Sizes((100_000, 1_000_000), 1024, 200, 100, Load(per_s=1000))
TINY = Sizes((1_100, 2_200), 16, 2, 2, Load(per_s=200, quiet_s=0.05))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--device", default="cuda", show_default=True, help="As torch names it.")
@click.option("--tiny", is_flag=True, help="Few rows: proves the script, no speed.")
@click.option(
    "--rows", multiple=True, type=click.IntRange(min=1_100), help="Sizes; the largest is rebuilt."
)
@click.option("--dimension", type=click.IntRange(min=8), help="Of vectors.")
@click.option("--recall-target", default=0.98, show_default=True, help="Of the lists.")
@click.option("--per-s", type=float, help="Searches a second beside writes and a rebuild.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="A folder for the results; none for --tiny."
)
def main(
    device: str,
    tiny: bool,
    rows: Sequence[int],
    dimension: int | None,
    recall_target: float,
    per_s: float | None,
    out: Path | None,
) -> None:
    """Measures the vector index on a device, over made-up vectors."""
    require_device(device)
    sizes = TINY if tiny else FULL
    sizes = sizes._replace(
        rows=tuple(rows) or sizes.rows,
        dimension=dimension or sizes.dimension,
        load=sizes.load if per_s is None else Load(per_s=per_s),
    )
    speed = speed_of(torch.device(device), "float32" if device == "cpu" else "float16")
    bench = IndexBench(device, sizes, recall_target, speed)
    environment = {**describe(), **about_device(torch.device(device), speed)}
    if out is None and not tiny:
        out = run_folder("gpu-index")
    click.echo(f"{device}: {speed.bytes_per_s / 1e9:.0f} GB/s, lists of {bench.library.name}\n")
    for result in bench.results():
        click.echo(line(result))
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            append_record(out, result.as_record(environment))
    if out is not None:
        click.echo(f"\nwritten to {out}")


# ---------------------------------------------------------------- searches of vectors alone


@dataclass(frozen=True)
class OnDevice:
    """A corpus on a device: what is searched, float16 (n, dimension), and what should be found."""

    corpus: Corpus
    device: torch.device

    @cached_property
    def vectors(self) -> torch.Tensor:
        """Of the rows."""
        return torch.from_numpy(self.corpus.vectors).half().to(self.device)

    @cached_property
    def queries(self) -> torch.Tensor:
        """float32 (b, dimension): those that are timed; others have calibrated the lists."""
        return self._questions[len(self._questions) // 2 :]

    @cached_property
    def held(self) -> torch.Tensor:
        """float32 (b, dimension): those that calibrate."""
        return self._questions[: len(self._questions) // 2]

    @cached_property
    def truth(self) -> NDArray[np.int64]:
        """What the timed ones should find: int64 (b, k)."""
        return true_nearest(self.corpus)[len(self.held) :]

    @cached_property
    def _questions(self) -> torch.Tensor:
        return torch.from_numpy(self.corpus.queries).to(self.device)

    def batches(self, size: int, rounds: int) -> Iterator[torch.Tensor]:
        """Questions, so many at once, from the first again after the last."""
        count = len(self.queries)
        for start in range(0, size * rounds, size):
            numbers = [(start + each) % count for each in range(size)]
            yield self.queries[torch.tensor(numbers, device=self.device)]


def scan(vectors: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
    """The k nearest rows of each query: all are read in float16, the head again in float32.

    Args:
        vectors: float16 (n, dimension).
        queries: float32 (b, dimension).

    Returns:
        int64 (b, k), on the host.
    """
    scores = queries.half() @ vectors.T
    head = torch.topk(scores.float(), min(LEAST_HEAD, len(vectors)), dim=1).indices
    return best_of(vectors, queries, head)


def search_lists(
    lists: InvertedLists, n_probes: int, vectors: torch.Tensor, queries: torch.Tensor
) -> torch.Tensor:
    """The same of the nearest lists, with more candidates than are wanted."""
    found = lists.search(queries, K + LEAST_EXTRA_CANDIDATES, n_probes, None).slots
    return best_of(vectors, queries, torch.as_tensor(found, device=vectors.device))


def best_of(vectors: torch.Tensor, queries: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The best k of the candidates of each query, int64 (b, n), -1 for none; on the host."""
    scores = torch.einsum("bnd,bd->bn", vectors[rows.clamp(min=0)].float(), queries)
    scores = scores.masked_fill(rows < 0, -torch.inf)
    return rows.gather(1, torch.topk(scores, K, dim=1).indices).cpu()


# ---------------------------------------------------------------- measuring


@dataclass(frozen=True)
class IndexBench:
    """A device, how fast it is, and how much is measured on it."""

    device: str
    sizes: Sizes
    recall_target: float
    speed: Speed

    @cached_property
    def library(self) -> ListsLibrary:
        """What makes lists there, ready for the first search."""
        if self.device == "cpu":
            return FaissLibrary()
        # The same that the indexes get: a process has one memory for lists.
        library = Gpus().library(self.device, IndexSettings().lists_share)
        library.warm_up(self.sizes.dimension)
        return library

    def results(self) -> Iterator[Result]:
        """All results, size by size."""
        timed: list[Result] = []
        for rows in self.sizes.rows:
            corpus = topic_mixture(rows, self.sizes.dimension)
            for result in self._searched(OnDevice(corpus, torch.device(self.device))):
                timed.append(result)
                yield result
            yield from self._served(corpus, is_last=rows == self.sizes.rows[-1])
        yield from self._crossings(timed)

    def _searched(self, on_device: OnDevice) -> Iterator[Result]:
        for batch in BATCHES:
            read = partial(scan, on_device.vectors)
            yield self._timed(EXACT, on_device, batch, read, share=1.0, about={})
        started = time.perf_counter()
        lists, calibration = self._lists(on_device)
        about: dict[str, Json] = {
            "n_lists": lists.n_lists,
            "n_probes": calibration.n_probes,
            "build_s": round(time.perf_counter() - started, 2),
        }
        try:
            probe = partial(search_lists, lists, calibration.n_probes, on_device.vectors)
            for batch in BATCHES:
                # Each question reads lists of its own, at most all of them.
                share = min(1.0, batch * calibration.chosen.share)
                yield self._timed(LISTS, on_device, batch, probe, share=share, about=about)
        finally:
            lists.close()

    def _lists(self, on_device: OnDevice) -> tuple[InvertedLists, Calibration]:
        """Lists with all rows, and how many of them to read."""
        vectors = on_device.vectors
        n_lists = IndexPolicy().n_lists(len(vectors))
        chosen = np.random.default_rng(0).permutation(len(vectors))
        sample = torch.from_numpy(chosen[: training_rows(n_lists, len(vectors))]).to(vectors.device)
        lists = self.library.train(vectors[sample], n_lists)
        for start in range(0, len(vectors), FILLED_AT_ONCE):
            part = vectors[start : start + FILLED_AT_ONCE]
            lists.extend(part, torch.arange(start, start + len(part), device=vectors.device))
        every = np.ones(len(vectors), np.bool_)
        asked = ground_truth(vectors, on_device.held, every, lambda: None)
        assert asked is not None, "there are questions; this is a bug"
        return lists, calibrate(lists, vectors, [asked], self.recall_target, lambda: None)

    def _timed(
        self,
        way: str,
        on_device: OnDevice,
        batch: int,
        run: Callable[[torch.Tensor], torch.Tensor],
        *,
        share: float,
        about: dict[str, Json],
    ) -> Result:
        """Times batches one after the other, from questions on the device to rows on the host."""
        vectors, rounds = on_device.vectors, self.sizes.rounds
        seconds: list[float] = []
        for queries in on_device.batches(batch, WARM_UPS + rounds):
            wait_for(vectors.device)
            started = time.perf_counter()
            run(queries)
            seconds.append(time.perf_counter() - started)
        latency = Latency.of(seconds[WARM_UPS:])
        floor_ms = share * vectors.nbytes / self.speed.bytes_per_s * 1e3
        times = latency.p50_ms / floor_ms
        found = run(on_device.queries)
        rows = len(vectors)
        return Result(
            scenario="index",
            parameters={
                "way": way,
                "rows": rows,
                "dimension": vectors.shape[1],
                "batch": batch,
                "k": K,
            },
            n=rounds,
            throughput_per_s=round(batch * rounds / sum(seconds[WARM_UPS:]), 1),
            latency=latency,
            measured={
                "floor_ms": round(floor_ms, 4),
                "times_the_floor": round(times, 2),
                "recall": round(recall(found.tolist(), on_device.truth), 4),
                "goal": goal(way, rows, batch, latency.p50_ms, times),
                **about,
            },
        )

    def _served(self, corpus: Corpus, *, is_last: bool) -> Iterator[Result]:
        """An index as a replica has it: the first size is written to, the last is rebuilt."""
        settings = IndexSettings.model_validate(
            {"kind": "ivf", "device": self.device, "recall_target": self.recall_target}
        )
        engine = engine_maker(settings, corpus.vectors.shape[1])()
        assert isinstance(engine, TieredIndex), "kind ivf is one with lists; this is a bug"
        fill_s = fill(engine, corpus.vectors)
        yield self._asked(EXACT, engine, corpus, {"fill_s": round(fill_s, 2)})
        started = time.perf_counter()
        engine.maintain()
        build_s = time.perf_counter() - started
        yield self._asked(LISTS, engine, corpus, {"build_s": round(build_s, 2)})
        yield self._side_by_side(engine, corpus)
        data = (corpus.vectors, corpus.queries, self.sizes.load)
        yield from written_under_load(engine, *data, writes=self.sizes.writes)
        if is_last:
            yield rebuilt_under_load(engine, *data)

    def _asked(
        self, way: str, engine: TieredIndex, corpus: Corpus, about: dict[str, Json]
    ) -> Result:
        """Times questions to the index, one by one, from vectors on the host to names there."""
        seconds: list[float] = []
        found: list[list[int]] = []
        for query in np.concatenate([corpus.queries[:WARM_UPS], corpus.queries]):
            started = time.perf_counter()
            candidates = search(engine, query).candidates
            seconds.append(time.perf_counter() - started)
            found.append([int(each.item.id) for each in candidates])
        return Result(
            scenario="index as served",
            parameters={
                "way": way,
                "rows": len(corpus.vectors),
                "dimension": corpus.vectors.shape[1],
            },
            n=len(corpus.queries),
            latency=Latency.of(seconds[WARM_UPS:]),
            measured={
                "recall": round(recall(found[WARM_UPS:], true_nearest(corpus)), 4),
                **about,
            },
        )

    def _side_by_side(self, engine: TieredIndex, corpus: Corpus) -> Result:
        """Times questions to lists from so many threads at once, each waiting for its answer."""

        def ask(query: NDArray[np.float32]) -> float:
            started = time.perf_counter()
            search(engine, query)
            return time.perf_counter() - started

        started = time.perf_counter()
        with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
            seconds = list(threads.map(ask, corpus.queries))
        return Result(
            scenario="index side by side",
            parameters={
                "callers": SIDE_BY_SIDE,
                "rows": len(corpus.vectors),
                "dimension": corpus.vectors.shape[1],
            },
            n=len(seconds),
            throughput_per_s=round(len(seconds) / (time.perf_counter() - started), 1),
            latency=Latency.of(seconds),
        )

    def _crossings(self, timed: Sequence[Result]) -> Iterator[Result]:
        """From how many rows on lists take half of the time of a scan, which is when they are made.

        Once as an index finds it at its start, and for each batch from what was timed here.
        """
        dimension = self.sizes.dimension
        found = {"as an index measures it": self._measured_threshold(dimension)}
        if len(self.sizes.rows) > 1:
            for batch in BATCHES:
                lines = [Line.through(points(timed, way, batch)) for way in (EXACT, LISTS)]
                found[f"batch {batch}"] = exact_max_rows(*lines)
        for name, rows in found.items():
            yield Result(
                scenario="index crossing",
                parameters={"of": name, "dimension": dimension},
                n=1,
                measured={"exact_max_rows": rows},
            )

    def _measured_threshold(self, dimension: int) -> int:
        sizes = self.sizes.rows if self.sizes is TINY else None
        return measured_exact_max_rows(
            self.library, dimension, device=self.device, timed_rows=sizes
        )


def points(results: Sequence[Result], way: str, batch: int) -> list[tuple[int, float]]:
    """Rows and seconds of a way, by size."""
    chosen = []
    for each in results:
        its = each.parameters
        if each.latency is not None and (its["way"], its["batch"]) == (way, batch):
            chosen.append((int(str(its["rows"])), each.latency.p50_ms / 1e3))
    return chosen


def goal(way: str, rows: int, batch: int, p50_ms: float, times_the_floor: float) -> str:
    """Whether it keeps its goal, in words; "" if it has none."""
    case = (way, rows, batch)
    if wanted := GOALS_MS.get(case):
        return f"<= {wanted} ms: {'reached' if p50_ms <= wanted else '**missed**'}"
    if times := GOALS_BY_FLOOR.get(case):
        return f"<= {times:g} x floor: {'reached' if times_the_floor <= times else '**missed**'}"
    return ""


def line(result: Result) -> str:
    """A result in a line."""
    named = ", ".join(f"{name} {value}" for name, value in result.parameters.items())
    times = result.latency
    timed = "" if times is None else f"p50 {times.p50_ms} ms, p99 {times.p99_ms} ms, "
    measured = ", ".join(f"{name} {value}" for name, value in result.measured.items() if value)
    return f"{result.scenario} ({named}): {timed}{measured}"


if __name__ == "__main__":
    main()
