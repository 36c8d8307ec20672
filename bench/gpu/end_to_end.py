"""The command `python -m bench.gpu.end_to_end`: the whole service with its models on a GPU.

The models have their published sizes and random weights, so that nothing is downloaded: answers are
not good, and take as long. Without the jars of Neo4j the graph leg is FAILED.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import cycle, takewhile
from pathlib import Path

import click

from bench.harness import options
from bench.harness.collection import Collection, Query
from bench.harness.connections import MAX_CONNECTIONS, connected
from bench.harness.load import (
    ENDED_WELL,
    Run,
    closed_loop,
    leg_states,
    load_result,
    open_loop,
    poisson_arrivals,
)
from bench.harness.processes import CpuUse, ServiceProcesses, cpu_over
from bench.harness.results import Record, Result, Take, select
from bench.harness.sample import multiplied_sample
from bench.harness.service import fresh_data, started
from bench.harness.writing import BatchLoader, measure_projection
from bench.reports.recording import recorded
from bench.reports.report import Column, counted, latency, parameter, table_of, value
from trivium.values import Retrieval

PROFILES = ("default", "two_stage")
CALLERS = (1, 16, 64)
RATES_PER_S = (100, 300)
TENANTS, TINY_TENANTS = 12, 2
FIRST_S = 10.0
"""The time of questions while it is filled, from the start on: no leg may fail meanwhile."""

CLIENTS = max(1, (os.cpu_count() or 1) // 4)
"""Processes that ask: one alone would be the limit of a service with several ingresses."""


@click.command(context_settings=options.HELP)
@options.device
@options.tiny
@click.option("--seconds", default=8.0, show_default=True, help="Of each load.")
@options.out
def main(device: str, tiny: bool, seconds: float, out: Path) -> None:
    """Measure the service in placement `gpu`, with random weights of published sizes."""
    # Not above: the processes that ask import this module too, and torch would delay them.
    from bench.gpu.checkpoints import save_bert_reranker, save_qwen3_embedder

    collection = multiplied_sample(TINY_TENANTS if tiny else TENANTS)
    queries = asked_of_all(collection)
    texts = [each.text for each in collection.segments]

    failed: list[str] = []

    async def run(folder: Path, clients: Executor, take: Take) -> None:
        async with started(folder, environment(folder, device)) as target:
            take(Result(scenario="healthy", n=1, measured={"seconds": target.healthy_after_s}))
            async with connected(target.address, MAX_CONNECTIONS) as connections:
                loader, since = BatchLoader(connections), time.perf_counter()
                begin = partial(shared, clients, target.address, queries, PROFILES[0])
                written, first = await asyncio.gather(
                    loader.load(collection), begin(FIRST_S, callers=CALLERS[1])
                )
                for result in written:
                    take(result)
                take(load_result({"profile": PROFILES[0], "load": f"first {FIRST_S:g} s"}, first))
                failed.extend(failed_legs(first))
                projected = await measure_projection(
                    connections, collection, loader.tokens, since, without_graph=True
                )
                take(projected)
            processes = ServiceProcesses(target.pid)
            for profile in PROFILES:
                load = partial(shared, clients, target.address, queries, profile)
                await load(seconds / 4, callers=CALLERS[-1])
                for callers in CALLERS:
                    measured = await cpu_over(processes.cpu, load(seconds, callers=callers))
                    take(load_of(profile, f"{callers} callers", *measured))
                for rate in RATES_PER_S:
                    measured = await cpu_over(processes.cpu, load(seconds, rate=rate))
                    take(load_of(profile, f"{rate}/s", *measured))

    with recorded("gpu-service", collection, out, summary) as record, fresh_data() as folder:

        def take(result: Result) -> None:
            record(result)
            click.echo(f"{result.scenario} {result.parameters} {result.latency}", err=True)

        save_qwen3_embedder(folder / "embedder", texts, tiny=tiny)
        save_bert_reranker(folder / "reranker", texts, tiny=tiny)
        spawned = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(CLIENTS, mp_context=spawned) as clients:
            asyncio.run(run(folder, clients, take))
    if failed:
        raise click.ClickException(f"in the first {FIRST_S:g} s: {', '.join(failed)}")


def asked_of_all(collection: Collection) -> Sequence[Query]:
    """Every question of every tenant, to each of them: more than are answered at once."""
    return [
        replace(query, tenant=tenant)
        for tenant in collection.memories
        for query in collection.queries
    ]


def environment(folder: Path, device: str) -> Mapping[str, str]:
    """The settings of the service: the models of a folder, all on one device."""
    settings = {
        "SERVE__PLACEMENT": "gpu",
        "EMBEDDER__MODEL": str(folder / "embedder"),
        "EMBEDDER__DEVICE": device,
        "RERANKER__MODEL": str(folder / "reranker"),
        "RERANKER__DEVICE": device,
        "INDEX__DEVICE": device,
    }
    if device != "cpu":
        settings |= {"SERVE__GPUS__EMBEDDER": "0.5", "SERVE__GPUS__RERANKER": "0.2"}
    return {f"TRIVIUM_{name}": given for name, given in settings.items()}


async def shared(
    clients: Executor,
    address: str,
    queries: Sequence[Query],
    profile: str,
    seconds: float,
    *,
    callers: int = 0,
    rate: float = 0,
) -> Run[Retrieval]:
    """Loads the service from several processes: by callers who wait, or by arrivals at a rate."""
    shares = min(CLIENTS, callers) or CLIENTS
    loop = asyncio.get_running_loop()
    runs = await asyncio.gather(
        *(
            loop.run_in_executor(
                clients,
                partial(ask_for, address, queries[seed::shares], profile, seconds, seed=seed),
                (callers + seed) // shares,  # which add up to all of them
                rate / shares,
            )
            for seed in range(shares)
        )
    )
    calls = [call for each in runs for call in each.calls]
    return Run(calls, max(each.seconds for each in runs))


def ask_for(
    address: str,
    queries: Sequence[Query],
    profile: str,
    seconds: float,
    callers: int,
    rate: float,
    *,
    seed: int,
) -> Run[Retrieval]:
    """The load of one process."""

    async def run() -> Run[Retrieval]:
        async with connected(address, MAX_CONNECTIONS) as connections:
            ask = partial(connections.ask, profile=profile, timeout=1.0)
            if callers:
                return await closed_loop(ask, lasting(distinct(queries), seconds), callers)
            arrivals = poisson_arrivals(rate, int(rate * seconds), seed)
            return await open_loop(ask, distinct(queries), arrivals)

    return asyncio.run(run())


def distinct(queries: Sequence[Query]) -> Iterator[Query]:
    """The questions again and again, each with a number that no other run has.

    The vector space keeps the vectors of recent questions: one that is repeated is not embedded.
    """
    run = uuid.uuid4().hex[:8]
    for number, query in enumerate(cycle(queries)):
        yield replace(query, text=f"{query.text} ({run} {number})")


def lasting(queries: Iterator[Query], seconds: float) -> Iterator[Query]:
    """The questions that are taken within a time."""
    end = time.perf_counter() + seconds
    return takewhile(lambda _: time.perf_counter() < end, queries)


def failed_legs(run: Run[Retrieval]) -> Sequence[str]:
    """The legs that failed; not the graph, for which the jars of Neo4j may be missing."""
    faults = leg_states((answer for _, answer in run.answered), ENDED_WELL)
    return [fault for fault in faults if fault.endswith(": failed") and fault != "graph: failed"]


def load_of(profile: str, load: str, run: Run[Retrieval], use: CpuUse) -> Result:
    """A load: its latency, CPU time, faults of its legs, and how its answers were reranked."""
    reranked = Counter(answer.rerank.stage.value for _, answer in run.answered if answer.rerank)
    cpu = use.per_request(max(1, len(run.answered)))
    return load_result({"profile": profile, "load": load}, run, reranked=reranked, cpu=cpu)


def summary(records: Sequence[Record]) -> str:
    """The results as Markdown: times of the start and of writing, then a line for each load."""
    took = {
        "scenario": lambda each: str(each["scenario"]),
        "seconds": value("measured", "seconds"),
        "a second": value("throughput_per_s"),
    }
    others = [each for each in records if each["scenario"] != "load"]
    return f"{table_of(others, took)}\n\n{loads_table(records)}"


def loads_table(records: Sequence[Record]) -> str:
    """A line for each load."""
    columns: dict[str, Column] = {
        "profile": parameter("profile"),
        "load": parameter("load"),
        **latency("p50", "p95", "p99"),
        "a second": value("throughput_per_s"),
        "CPU ms": value("measured", "cpu", "total_ms"),
        "reranked": counted("measured", "reranked"),
        "faults": counted("measured", "leg_faults"),
        "errors": counted("errors"),
    }
    return table_of(select(records, "load"), columns)


if __name__ == "__main__":
    main()
