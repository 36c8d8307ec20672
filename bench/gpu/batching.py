"""Offers a mixed load to the batcher in process: `python -m bench.gpu.batching --encoder 0.6B`.

Questions come at a rate of their own (Poisson arrivals, time from the arrival) while documents
fill what they leave. Before it, documents alone: the share of that rate which is left in the mix
is what the questions cost, and their times in the mix are what the documents cost them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import get_args

import click
import torch

from bench import environment
from bench.gpu.collector import collector_of_a_replica
from bench.gpu.encoders import RandomQwen3Encoder, SimulatedEncoder
from bench.gpu.loop_lag import LoopLag
from bench.gpu.random_weights import PUBLISHED
from bench.gpu.texts import random_texts
from bench.latency import Latency
from bench.load import poisson_arrivals
from bench.report import figures, markdown_table
from bench.results import Json, Result, append_record
from serving.config import load_settings
from serving.deployments.components import open_embedder
from serving.deployments.gpu_facts import gather
from serving.domain.budget import Deadline
from serving.models.precision import Precision
from serving.pipeline.batching import BatchedEmbedder, BatchLimits
from serving.ports import Embedder
from serving.telemetry import NoRecorder

RESULTS = Path(__file__).parents[1] / "results" / "gpu"

BUDGET_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is offered.

    Args:
        queries_per_s: How many questions come, on average.
        query_tokens: Of each question.
        chunk_tokens: Of each document.
        callers: Calls with documents that are in flight at once.
        call_texts: Documents of a call.
        seconds: How long each part is measured; a third of it is warm-up before.
    """

    queries_per_s: float = 2000
    query_tokens: int = 38
    chunk_tokens: int = 128
    callers: int = 8
    call_texts: int = 64
    seconds: float = 10

    def as_parameters(self) -> dict[str, Json]:
        """As it stands in a result."""
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
        # Beforehand: to make them takes the event loop longer than to hand them over.
        self._texts = cycle(random_texts(load.chunk_tokens, seed=1))
        self.done = 0

    @contextlib.asynccontextmanager
    async def filling(self) -> AsyncIterator[None]:
        """Keeps as many calls in flight as the load says while the body runs."""
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
    """What became of the questions: seconds of those answered, and the others by error."""

    seconds: list[float]
    errors: dict[str, int]


async def ask(embedder: Embedder, load: Load) -> Asked:
    """Asks questions at the rate of the load, for as long as it says."""
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


async def measure(embedder: Embedder, load: Load) -> list[Result]:
    """Measures documents alone, questions alone, and both together."""
    warm_up = replace(load, seconds=load.seconds / 3)
    await _bulk_alone(embedder, warm_up)
    await ask(embedder, warm_up)
    alone_per_s = await _bulk_alone(embedder, load)
    parameters = load.as_parameters()
    return [
        Result(
            scenario="bulk alone",
            parameters=parameters,
            n=round(alone_per_s * load.seconds),
            throughput_per_s=round(alone_per_s, 2),
        ),
        await _questions(embedder, load, None),
        await _questions(embedder, load, alone_per_s),
    ]


async def _bulk_alone(embedder: Embedder, load: Load) -> float:
    bulk = Bulk(embedder, load)
    async with bulk.filling():
        return await _rate(bulk, load.seconds)


async def _rate(bulk: Bulk, seconds: float) -> float:
    """Documents a second; the first calls are none of them, since they begin together."""
    started, before = time.perf_counter(), bulk.done
    await asyncio.sleep(seconds)
    return (bulk.done - before) / (time.perf_counter() - started)


async def _questions(embedder: Embedder, load: Load, alone_per_s: float | None) -> Result:
    """Asks, with documents beside it if their rate alone is given."""
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
    """What the load is offered to.

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
        """As it stands in a result."""
        described: dict[str, Json] = {"encoder": self.encoder, "bulk_ms": self.bulk_s * 1e3}
        if self.encoder == "simulated":
            batch_s, token_s = self.simulated_s
            described |= {"batch_ms": batch_s * 1e3, "token_us": token_s * 1e6}
        elif self.encoder != "service":
            described |= {"device": self.device, "precision": self.precision}
            if torch.device(self.device).type == "cuda":
                facts = gather()
                described["device_name"] = torch.cuda.get_device_name(self.device)
                described |= {"driver": facts.driver, "cuda": facts.torch_cuda}
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
    # What others use of the machine meanwhile makes latencies longer, and says nothing of us.
    machine: dict[str, Json] = {
        "switch_ms": switch_ms,
        "load_average": round(os.getloadavg()[0], 2),
    }
    results = asyncio.run(_measured(target, load))
    folder = out / f"batching-{encoder}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    folder.mkdir(parents=True)
    about = environment.describe()
    for result in results:
        parameters = {**target.as_parameters(), **machine, **result.parameters}
        append_record(folder, replace(result, parameters=parameters).as_record(about))
    click.echo(as_table(results))
    click.echo(f"written to {folder}", err=True)


async def _measured(target: Target, load: Load) -> list[Result]:
    async with target.opened() as embedder:
        with collector_of_a_replica():
            return await measure(embedder, load)


if __name__ == "__main__":
    main()
