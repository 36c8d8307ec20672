"""Offers a mixed load to the batcher in process: `python -m bench.gpu.batching --encoder 0.6B`.

Questions arrive at a fixed mean rate (Poisson arrivals, latency counted from the arrival) while
documents use the remaining capacity. Documents and questions are also measured alone, so that the
cost of each to the other is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import get_args

import click
import torch

from bench.gpu.collector import collector_of_a_replica
from bench.gpu.loop_lag import LoopLag
from bench.gpu.networks.encoders import RandomQwen3Encoder, SimulatedEncoder
from bench.gpu.networks.random_weights import PUBLISHED
from bench.gpu.networks.texts import random_texts
from bench.harness.latency import Latency
from bench.harness.load import poisson_arrivals
from bench.harness.results import RESULTS, Json, Result, append_record, run_folder
from bench.reports import environment
from bench.reports.report import figures, markdown_table
from serving.composition.models import open_embedder
from serving.config.settings import load_settings
from serving.domain.budget import Deadline
from serving.models.precision import Precision
from serving.pipeline.inference.embedder import BatchedEmbedder, BatchLimits
from serving.ports.embedding import Embedder
from serving.telemetry import NoRecorder

BUDGET_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load.

    Args:
        queries_per_s: The mean arrival rate of questions.
        query_tokens: Of each question.
        chunk_tokens: Of each document.
        callers: Calls with documents that are in flight at once.
        call_texts: Documents of a call.
        seconds: The duration of each part; a third of it is added as warm-up.
    """

    queries_per_s: float = 2000
    query_tokens: int = 38
    chunk_tokens: int = 128
    callers: int = 8
    call_texts: int = 64
    seconds: float = 10

    def as_parameters(self) -> dict[str, Json]:
        """The parameters of a result."""
        return {
            "queries_per_s": self.queries_per_s,
            "query_tokens": self.query_tokens,
            "chunk_tokens": self.chunk_tokens,
            "callers": self.callers,
            "call_texts": self.call_texts,
            "seconds": self.seconds,
        }


class Bulk:
    """Documents without end; counts those that are done."""

    def __init__(self, embedder: Embedder, load: Load) -> None:
        self._embedder = embedder
        self._load = load
        # Made in advance, because making them takes longer than submitting them.
        self._texts = cycle(random_texts(load.chunk_tokens, seed=1))
        self.done = 0

    @contextlib.asynccontextmanager
    async def filling(self) -> AsyncIterator[None]:
        """Keeps the configured number of calls in flight while the body runs."""
        callers = [asyncio.create_task(self._call()) for _ in range(self._load.callers)]
        try:
            yield
        finally:
            for caller in callers:
                caller.cancel()
            await asyncio.gather(*callers, return_exceptions=True)

    async def _call(self) -> None:
        while True:
            texts = [next(self._texts) for _ in range(self._load.call_texts)]
            await self._embedder.embed_documents(texts)
            self.done += len(texts)


@dataclass(frozen=True, slots=True)
class Asked:
    """The latencies of the questions that were answered, and the errors of the others, by type."""

    seconds: list[float]
    errors: dict[str, int]


async def ask(embedder: Embedder, load: Load) -> Asked:
    """Sends questions at the rate of the load, for its duration."""
    count = max(1, round(load.queries_per_s * load.seconds))
    texts = cycle(random_texts(load.query_tokens, seed=2))
    asked = Asked([], {})

    async def one(text: str, due: float) -> None:
        try:
            await embedder.embed_query(text, Deadline.after(BUDGET_S))
        except Exception as error:
            name = type(error).__name__
            asked.errors[name] = asked.errors.get(name, 0) + 1
        else:
            asked.seconds.append(time.perf_counter() - due)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for text, arrival_s in zip(
            texts, poisson_arrivals(load.queries_per_s, count), strict=False
        ):
            due = started + arrival_s
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.create_task(one(text, due))
    return asked


async def measure(embedder: Embedder, load: Load) -> AsyncIterator[Result]:
    """Measures documents alone, questions alone, and both together."""
    warm_up = replace(load, seconds=load.seconds / 3)
    await _bulk_alone(embedder, warm_up)
    await ask(embedder, warm_up)
    alone_per_s = await _bulk_alone(embedder, load)
    yield Result(
        scenario="bulk alone",
        parameters=load.as_parameters(),
        n=round(alone_per_s * load.seconds),
        throughput_per_s=round(alone_per_s, 2),
    )
    yield await _questions(embedder, load, None)
    yield await _questions(embedder, load, alone_per_s)


async def _bulk_alone(embedder: Embedder, load: Load) -> float:
    bulk = Bulk(embedder, load)
    async with bulk.filling():
        return await _rate(bulk, load.seconds)


async def _rate(bulk: Bulk, seconds: float) -> float:
    """Documents per second, without the first calls, which start at the same time."""
    started, before = time.perf_counter(), bulk.done
    await asyncio.sleep(seconds)
    return (bulk.done - before) / (time.perf_counter() - started)


async def _questions(embedder: Embedder, load: Load, alone_per_s: float | None) -> Result:
    """Measures questions, together with documents if their rate alone is given."""
    bulk, lag = Bulk(embedder, load), LoopLag()
    async with contextlib.AsyncExitStack() as stack:
        if alone_per_s is not None:
            await stack.enter_async_context(bulk.filling())
        await stack.enter_async_context(lag.watched())
        started = time.perf_counter()
        asked = await ask(embedder, load)
        seconds = time.perf_counter() - started
    measured: dict[str, Json] = {"loop_lag_p99_ms": lag.p99_ms}
    if alone_per_s is not None:
        measured["bulk_per_s"] = round(bulk.done / seconds, 2)
        measured["bulk_share"] = round(bulk.done / seconds / alone_per_s, 3) if alone_per_s else 0.0
    return Result(
        scenario="queries alone" if alone_per_s is None else "queries and bulk",
        parameters=load.as_parameters(),
        n=len(asked.seconds),
        throughput_per_s=round(len(asked.seconds) / seconds, 2),
        latency=Latency.of(asked.seconds) if asked.seconds else None,
        errors=asked.errors,
        measured=measured,
    )


def as_table(results: Sequence[Result]) -> str:
    """A line for each part."""
    head = ("", "queries/s", "p50 ms", "p99 ms", "bulk/s", "share of alone", "loop lag p99 ms")
    return markdown_table(head, map(_line, results))


def _line(result: Result) -> tuple[str, ...]:
    latency, measured = result.latency, result.measured
    if result.scenario == "bulk alone":
        return (result.scenario, "-", "-", "-", figures(result.throughput_per_s), "1", "-")
    return (
        result.scenario,
        figures(result.throughput_per_s),
        figures(latency.p50_ms if latency else None),
        figures(latency.p99_ms if latency else None),
        *(_figure(measured.get(name)) for name in ("bulk_per_s", "bulk_share", "loop_lag_p99_ms")),
    )


def _figure(value: Json) -> str:
    return figures(float(value)) if isinstance(value, int | float) else "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The encoder under load.

    Args:
        encoder: "simulated", "service" (as the settings name it) or a size of Qwen3.
        device: Where a Qwen3 runs.
        precision: Of a Qwen3.
        simulated_s: What a batch and a token take on the simulated device.
        bulk_s: What a bulk batch may take on an accelerator.
    """

    encoder: str
    device: str
    precision: Precision
    simulated_s: tuple[float, float]
    bulk_s: float

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[Embedder]:
        """The batcher over the encoder."""
        if self.encoder == "service":
            async with open_embedder(load_settings(), NoRecorder()) as embedder:
                yield embedder
            return
        encoder = (
            SimulatedEncoder(*self.simulated_s)
            if self.encoder == "simulated"
            else RandomQwen3Encoder(self.encoder, self.device, self.precision)
        )
        limits = BatchLimits.for_device(encoder.device())
        if limits.bulk_seconds is not None:
            limits = replace(limits, bulk_seconds=self.bulk_s)
        async with BatchedEmbedder(encoder, limits) as embedder:
            yield embedder

    def as_parameters(self) -> dict[str, Json]:
        """The parameters of a result."""
        described: dict[str, Json] = {"encoder": self.encoder, "bulk_ms": self.bulk_s * 1e3}
        if self.encoder == "simulated":
            batch_s, token_s = self.simulated_s
            described |= {"batch_ms": batch_s * 1e3, "token_us": token_s * 1e6}
        elif self.encoder != "service":
            described |= {"device": self.device, "precision": self.precision}
        return described


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--encoder",
    type=click.Choice(["simulated", "service", *PUBLISHED]),
    default="simulated",
    show_default=True,
    help="A device that only takes time, the service's own encoder by its settings, or a Qwen3 "
    "of this size with random weights.",
)
@click.option("--device", default="cuda", show_default=True, help="Where a Qwen3 runs.")
@click.option(
    "--precision", type=click.Choice(get_args(Precision)), default="bfloat16", show_default=True
)
@click.option(
    "--batch-ms", default=0.8, show_default=True, help="Of any batch on the simulated device."
)
@click.option(
    "--token-us", default=1.2, show_default=True, help="Of each token on the simulated device."
)
@click.option(
    "--bulk-ms", default=2.0, show_default=True, help="What a bulk batch may take on a device."
)
@click.option(
    "--switch-ms",
    default=sys.getswitchinterval() * 1e3,
    show_default=True,
    help="After so long a thread of Python lets another one run: what the event loop may wait "
    "for the threads of the batcher.",
)
@click.option("--queries-per-s", default=2000.0, show_default=True)
@click.option("--query-tokens", default=38, show_default=True)
@click.option("--chunk-tokens", default=128, show_default=True)
@click.option("--callers", default=8, show_default=True, help="Bulk calls in flight.")
@click.option("--call-texts", default=64, show_default=True, help="Documents of a bulk call.")
@click.option("--seconds", default=10.0, show_default=True, help="Of each part.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=RESULTS,
    help="Where to make the folder of results.",
)
def main(
    encoder: str,
    device: str,
    precision: Precision,
    batch_ms: float,
    token_us: float,
    bulk_ms: float,
    switch_ms: float,
    queries_per_s: float,
    query_tokens: int,
    chunk_tokens: int,
    callers: int,
    call_texts: int,
    seconds: float,
    out: Path,
) -> None:
    """Measure questions and documents together, and write and print what they get."""
    if encoder in PUBLISHED and device.startswith("cuda") and not torch.cuda.is_available():
        raise click.ClickException("there is no CUDA device: `python -m serving doctor` says why")
    load = Load(
        queries_per_s=queries_per_s,
        query_tokens=query_tokens,
        chunk_tokens=chunk_tokens,
        callers=callers,
        call_texts=call_texts,
        seconds=seconds,
    )
    target = Target(
        encoder=encoder,
        device=device,
        precision=precision,
        simulated_s=(batch_ms / 1e3, token_us / 1e6),
        bulk_s=bulk_ms / 1e3,
    )
    sys.setswitchinterval(switch_ms / 1e3)
    # CPU use of other processes lengthens latencies, so the load average is recorded.
    machine: dict[str, Json] = {
        "switch_ms": switch_ms,
        "load_average": round(os.getloadavg()[0], 2),
    }
    folder = run_folder(f"batching-{encoder}", out)
    folder.mkdir(parents=True)
    about = environment.describe()
    if encoder in PUBLISHED:
        about["device"] = environment.about_device(device)

    def take(result: Result) -> None:
        parameters = {**target.as_parameters(), **machine, **result.parameters}
        append_record(folder, replace(result, parameters=parameters).as_record(about))
        click.echo(f"{result.scenario}: measured", err=True)

    click.echo(as_table(asyncio.run(_measured(target, load, take))))
    click.echo(f"written to {folder}", err=True)


async def _measured(target: Target, load: Load, take: Callable[[Result], None]) -> list[Result]:
    results = []
    async with target.opened() as embedder:
        with collector_of_a_replica():
            async for result in measure(embedder, load):
                take(result)
                results.append(result)
    return results


if __name__ == "__main__":
    main()
