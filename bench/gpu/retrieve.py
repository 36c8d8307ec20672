"""Loads embedder and index in one process: `make bench-gpu`, or `python -m bench.gpu.retrieve`.

They are put together as a replica of the placement `gpu` has them: a Qwen3 behind the batcher, and
an index that follows a feed, asked with texts. What is missing of a whole Retrieve are gRPC and the
words and relations of PostgreSQL and Neo4j, which cannot be carried to a machine that has a device
and nothing else; every result says so.

Questions come on a schedule, from callers who do not know of each other, at a rate that has a goal;
in closed loops, which have none; and at rates that are doubled until the goal is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import torch
from numpy.typing import NDArray

from bench.gpu.collector import collector_of_a_replica
from bench.gpu.device import about_device, require_device, speed_of
from bench.gpu.loop_lag import LoopLag
from bench.gpu.networks.cases import QUESTION
from bench.gpu.networks.encoders import TINY, RandomQwen3Encoder
from bench.gpu.networks.random_weights import PUBLISHED
from bench.gpu.networks.texts import random_texts
from bench.harness.latency import median_ms
from bench.harness.load import Run, closed_loop, open_loop, poisson_arrivals, silent
from bench.harness.rates import bracket
from bench.harness.results import Json, Result, append_record, run_folder
from bench.index.load import BATCH_ROWS, SCOPE, TENANT, index_row
from bench.index.searches import Corpus, topic_mixture
from bench.reports.environment import describe
from bench.reports.report import counts, figures
from serving.composition.index_engine import engine_maker
from serving.config.settings import IndexSettings
from serving.domain.budget import Deadline
from serving.domain.consistency import Snapshot
from serving.domain.errors import DependencyError
from serving.domain.items.records import ItemKind
from serving.models.device_vector import DeviceVector
from serving.models.precision import Precision
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.pipeline.index.text_search import EmbeddedSearch, QuestionVectors
from serving.pipeline.inference.embedder import BatchedEmbedder
from serving.ports.embedding import Device, EmbeddingModel, TextEncoder, TokenIds, Vectors
from serving.ports.index_engine import FeedDelta, FeedPosition, IndexRow
from serving.ports.vector_index import IndexAnswer, IndexTier, WantedNeighbours

RETRIEVE = "retrieve in process"
MEASURED = "embed + search in process"
LEFT_OUT = "gRPC, PostgreSQL and Neo4j, which cannot be carried to the device"

GOAL_PER_S = 100.0
GOAL_P95_MS = 20.0
PASSED = f"rate at which p95 passes {GOAL_P95_MS:g} ms"

CALLERS = (1, 16, 64)
"""Of the closed loops."""

WARM_UP_CALLERS = 16

DEPTH = 20
"""That of the default profile's leg `dense`."""

WANTED = WantedNeighbours(ItemKind.SEGMENT, SCOPE, DEPTH)

BUDGET_S = 1.0
"""A question that waits longer counts as not answered."""

PATIENCE_S = 3600.0
POLL_S = 0.1


class Sizes(NamedTuple):
    """What is measured, and for how long: each loop, and each rate that is tried."""

    network: str
    rows: int
    loop_s: float
    step_s: float


FULL = Sizes("0.6B", 1_000_000, loop_s=20, step_s=5)
TINY_SIZES = Sizes(TINY, 2_000, loop_s=0.3, step_s=0.05)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--device", default="cuda", show_default=True, help="As torch names it.")
@click.option("--tiny", is_flag=True, help="Few rows, no network: proves the script, no speed.")
@click.option("--network", type=click.Choice(list(PUBLISHED)), help="0.6B if it is left out.")
@click.option("--rows", type=click.IntRange(min=1_100), help="Of the index; a million, if not.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="A folder for the results; none for --tiny."
)
def main(device: str, tiny: bool, network: str | None, rows: int | None, out: Path | None) -> None:
    """Measures how soon questions are embedded and their neighbours found, and at what rate."""
    require_device(device)
    sizes = TINY_SIZES if tiny else FULL
    sizes = sizes._replace(network=network or sizes.network, rows=rows or sizes.rows)
    speed = speed_of(torch.device(device), _precision(device))
    environment = {**describe(), **about_device(torch.device(device), speed)}
    if out is None and not tiny:
        out = run_folder("gpu-retrieve")
    click.echo(f"{MEASURED}, without {LEFT_OUT}\n")

    def take(result: Result) -> None:
        click.echo(line(result))
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            append_record(out, result.as_record(environment))

    try:
        asyncio.run(measure(device, sizes, take))
    except DependencyError as error:
        raise click.ClickException(str(error)) from error
    if out is not None:
        click.echo(f"\nwritten to {out}")


def _precision(device: str) -> Precision:
    return "float32" if device == "cpu" else "bfloat16"


# ---------------------------------------------------------------- what is asked


class CorpusFeed:
    """An `IndexFeed` of rows that never change, in the place of PostgreSQL.

    Args:
        vectors: float16 (n, dimension).
    """

    def __init__(self, vectors: NDArray[np.float16]) -> None:
        self._vectors = vectors
        nothing = Snapshot(1)
        self._position = FeedPosition("1", log=nothing, embedded=nothing, complete=True)

    @contextlib.asynccontextmanager
    async def bootstrap(
        self, _model: EmbeddingModel
    ) -> AsyncIterator[tuple[FeedPosition, AsyncIterator[list[IndexRow]]]]:
        """All rows, numbered."""
        yield self._position, self._batches()

    async def _batches(self) -> AsyncIterator[list[IndexRow]]:
        for start in range(0, len(self._vectors), BATCH_ROWS):
            part = self._vectors[start : start + BATCH_ROWS]
            yield [index_row(start + each, vector) for each, vector in enumerate(part)]

    async def changes_since(self, position: FeedPosition, _model: EmbeddingModel) -> FeedDelta:
        """Nothing."""
        return FeedDelta([], [], position)

    async def lag_s(self, _position: FeedPosition) -> float:
        """There is nothing that is not in the index."""
        return 0.0

    async def embedded_share(self, _model: EmbeddingModel) -> float:
        """Every row has its vector."""
        return 1.0

    async def wait(self, timeout_s: float) -> None:
        """Nothing ever changes."""
        await asyncio.sleep(timeout_s)


class CorpusQueryEncoder:
    """A `TextEncoder` that does all the work of another, and then gives a question of a corpus.

    What drawn weights make of texts lies close together and near no topic of the corpus: searches
    would read the same few lists again and again, which a cache then keeps.

    Args:
        encoder: Whose time is taken.
        queries: float32 (b, dimension), on its device: what is given, one after the other.
    """

    def __init__(self, encoder: TextEncoder, queries: torch.Tensor) -> None:
        self._encoder = encoder
        self._next = itertools.cycle(queries)

    def model(self) -> EmbeddingModel:
        """That of the other."""
        return self._encoder.model()

    def device(self) -> Device:
        """That of the other."""
        return self._encoder.device()

    def tokenize_query(self, text: str) -> TokenIds:
        """Tokenizes a question as the other does."""
        return self._encoder.tokenize_query(text)

    def tokenize_document(self, text: str) -> list[TokenIds]:
        """Tokenizes a text as the other does."""
        return self._encoder.tokenize_document(text)

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        """Makes the rows of the other."""
        return self._encoder.encode(windows)

    def encode_queries(self, windows: Sequence[TokenIds]) -> list[DeviceVector]:
        """Has the windows encoded, and gives as many questions of the corpus."""
        encoded = self._encoder.encode_queries(windows)
        return [DeviceVector(next(self._next)) for _ in encoded]


@dataclass(frozen=True, slots=True)
class Ready:
    """The embedder and the index under load, and the properties of the index."""

    semantic: EmbeddedSearch
    about: dict[str, Json]

    async def ask(self, text: str) -> IndexAnswer:
        """Embeds a question and finds what is nearest to it, as a leg `dense` has it done."""
        deadline = Deadline.after(BUDGET_S)
        return await self.semantic.search(text, WANTED, deadline)


@contextlib.asynccontextmanager
async def opened(device: str, sizes: Sizes) -> AsyncIterator[Ready]:
    """Puts embedder and index together as `composition.index.open_space` does.

    Raises:
        DependencyError: Lists cannot be made there.
    """
    random = await asyncio.to_thread(RandomQwen3Encoder, sizes.network, device, _precision(device))
    model = random.model()
    corpus, vectors = await asyncio.to_thread(_corpus, sizes.rows, model.dimension)
    settings = IndexSettings.model_validate({"kind": "ivf", "device": device})
    make_engine = await asyncio.to_thread(engine_maker, settings, model.dimension)
    queries = torch.from_numpy(corpus.queries).to(device)
    async with BatchedEmbedder(CorpusQueryEncoder(random, queries)) as embedder:
        started = time.perf_counter()
        async with LogFollowingIndex(CorpusFeed(vectors), model, make_engine) as index:
            assert await index.ready(Deadline.after(PATIENCE_S)), "it is not filled in an hour"
            filled_s = time.perf_counter() - started
            tier = await _in_lists(index)
            about: dict[str, Json] = {
                "filled_s": round(filled_s, 2),
                "in_lists_s": round(time.perf_counter() - started - filled_s, 2),
                "n_lists": tier.n_lists,
                "n_probes": tier.n_probes,
                "recall": round(tier.recall, 4),
            }
            yield Ready(EmbeddedSearch(QuestionVectors(embedder), index), about)


def _corpus(rows: int, dimension: int) -> tuple[Corpus, NDArray[np.float16]]:
    """A mixture without its rows, and these as float16, which is half of the memory."""
    made = topic_mixture(rows, dimension)
    return Corpus(made.name, made.vectors[:0], made.queries), made.vectors.astype(np.float16)


async def _in_lists(index: LogFollowingIndex) -> IndexTier:
    """Waits until all rows are in lists.

    Raises:
        DependencyError: They cannot be put there.
        TimeoutError: They are not in an hour.
    """
    async with asyncio.timeout(PATIENCE_S):
        while True:
            tiers = (await index.status(TENANT)).tiers
            tier = next(tier for tier in tiers if tier.kind is ItemKind.SEGMENT)
            if tier.failure:
                raise DependencyError("index", tier.failure)
            if tier.n_lists and not tier.rebuilding:
                return tier
            await asyncio.sleep(POLL_S)


# ---------------------------------------------------------------- measuring


async def measure(device: str, sizes: Sizes, take: Callable[[Result], None]) -> None:
    """Measures all loops, one after the other.

    Raises:
        DependencyError: There can be no index in lists.
    """
    async with opened(device, sizes) as ready:
        with collector_of_a_replica():
            loops = Loops(ready, device, sizes, take)
            await loops.warm_up()
            await loops.on_schedule(GOAL_PER_S, sizes.loop_s)
            for callers in CALLERS:
                await loops.closed(callers)
            await loops.highest_rate()


class Loops:
    """Questions in every way that is measured.

    Args:
        ready: What answers them.
        device: Where.
        sizes: How much, and for how long.
        take: Called with each result.
    """

    def __init__(
        self, ready: Ready, device: str, sizes: Sizes, take: Callable[[Result], None]
    ) -> None:
        self._ready = ready
        self._sizes = sizes
        self._take = take
        self._parameters: dict[str, Json] = {
            "measured": MEASURED,
            "left_out": LEFT_OUT,
            "network": sizes.network,
            "precision": _precision(device),
            "query_tokens": QUESTION,
            "rows": sizes.rows,
            "depth": DEPTH,
        }
        # Over all loops, so that none is among the last, whose vectors are kept.
        self._texts = itertools.cycle(random_texts(QUESTION, seed=3))

    async def warm_up(self) -> None:
        """Runs every path once without recording results."""
        texts = self._for_seconds(self._sizes.step_s)
        run = await closed_loop(self._ready.ask, texts, WARM_UP_CALLERS, silent)
        found = {len(answer.candidates) for _, answer in run.answered}
        assert found == {DEPTH}, f"answers of {found} rows; this is a bug"

    async def on_schedule(self, rate_per_s: float, seconds: float) -> Result:
        """Asks at a rate, and holds it against the goal.

        Callers who do not know of each other come as one does who draws his gaps, however many
        they are: in one process there are no connections of which each could have its own.
        """
        arrivals = poisson_arrivals(rate_per_s, max(1, round(rate_per_s * seconds)))
        calls = open_loop(self._ready.ask, self._texts, arrivals, silent)
        result = await self._timed(calls, {"loop": "open", "rate_per_s": round(rate_per_s, 1)})
        verdict = "reached" if keeps_goal(result) else "**missed**"
        goal: dict[str, Json] = {"goal": f"p95 < {GOAL_P95_MS:g} ms: {verdict}"}
        result = replace(result, measured={**result.measured, **goal})
        self._take(result)
        return result

    async def closed(self, callers: int) -> None:
        """Asks as fast as so many callers can who each wait for the last answer."""
        texts = self._for_seconds(self._sizes.loop_s)
        calls = closed_loop(self._ready.ask, texts, callers, silent)
        self._take(await self._timed(calls, {"loop": "closed", "callers": callers}))

    async def highest_rate(self) -> None:
        """Looks for the rate at which the goal is no longer kept."""

        async def is_kept(rate_per_s: float) -> bool:
            return keeps_goal(await self.on_schedule(rate_per_s, self._sizes.step_s))

        found = await bracket(is_kept, GOAL_PER_S)
        self._take(
            Result(
                scenario=PASSED,
                parameters={**self._parameters, "seconds_each": self._sizes.step_s},
                n=1,
                measured={"kept_per_s": found.kept_per_s, "missed_per_s": found.missed_per_s},
            )
        )

    async def _timed(
        self, calls: Awaitable[Run[IndexAnswer]], parameters: dict[str, Json]
    ) -> Result:
        lag = LoopLag()
        async with lag.watched():
            run = await calls
        return Result(
            scenario=RETRIEVE,
            parameters={**self._parameters, **parameters},
            n=len(run.calls),
            throughput_per_s=run.throughput_per_s,
            latency=run.latency,
            errors=run.errors,
            measured={
                "embedding_p50_ms": median_ms([each.embedding_s for _, each in run.answered]),
                "loop_lag_p99_ms": lag.p99_ms,
                "index": self._ready.about,
            },
        )

    def _for_seconds(self, seconds: float) -> Iterator[str]:
        """Questions until the time is over."""
        end = time.perf_counter() + seconds
        return itertools.takewhile(lambda _text: time.perf_counter() < end, self._texts)


def keeps_goal(result: Result) -> bool:
    """Whether all questions were answered, and nearly all of them in time."""
    latency = result.latency
    return latency is not None and not result.errors and latency.p95_ms < GOAL_P95_MS


# ---------------------------------------------------------------- telling


def line(result: Result) -> str:
    """A result in a line."""
    measured, times = result.measured, result.latency
    if result.scenario == PASSED:
        kept, missed = measured["kept_per_s"], measured["missed_per_s"]
        never = "never missed" if missed is None else f"missed at {missed}/s"
        return f"{PASSED}: kept at {kept}/s, {never}"
    loop = result.parameters
    name = f"c = {loop['callers']}" if loop["loop"] == "closed" else f"{loop['rate_per_s']}/s"
    timed = (
        "no answer"
        if times is None
        else f"p50 {times.p50_ms} ms, p95 {times.p95_ms} ms, p99 {times.p99_ms} ms"
    )
    parts = [
        f"{name}: {figures(result.throughput_per_s)} answers/s, {timed}",
        f"vector p50 {measured['embedding_p50_ms']} ms",
        f"loop lag p99 {measured['loop_lag_p99_ms']} ms",
        counts(result.errors),
        str(measured.get("goal", "")),
    ]
    return ", ".join(part for part in parts if part)


if __name__ == "__main__":
    main()
