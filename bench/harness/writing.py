"""Writes a collection to the service, and waits until every leg can find it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from bench.harness.collection import Collection
from bench.harness.connections import Connections, connected, connections_for
from bench.harness.results import Latency, Result
from bench.harness.service import Target, running
from trivium.aio import AsyncClient
from trivium.values import Item, LegState, Stats

Each = TypeVar("Each")

BATCH_ITEMS = 256
PROJECTED_WITHIN_S = 1800.0
POLL_S = 0.1


class BatchLoader:
    """Writes a collection in batches, segments first, one batch at a time.

    `tokens` has the last consistency token of each tenant.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.tokens: dict[str, str] = {}

    async def load(self, collection: Collection) -> list[Result]:
        """Writes all segments and then all facts, and measures the acknowledgements."""
        memories = collection.memories.items()
        segments = await self._load("segments", {name: each.segments for name, each in memories})
        facts = await self._load("facts", {name: each.facts for name, each in memories})
        return [*segments, *facts]

    async def _load(self, kind: str, items: Mapping[str, Sequence[Item]]) -> list[Result]:
        outcomes: Counter[str] = Counter()
        seconds: list[float] = []
        for tenant, of_tenant in items.items():
            for batch in batches(of_tenant):
                started = time.perf_counter()
                result = await self._connections.client(tenant).ingest(batch)
                seconds.append(time.perf_counter() - started)
                outcomes.update(outcome.state.value for outcome in result.outcomes)
                self.tokens[tenant] = result.consistency_token or self.tokens.get(tenant, "")
        if not seconds:
            return []
        count = sum(map(len, items.values()))
        return [
            Result(
                scenario="ingest batches",
                parameters={"kind": kind, "batch": BATCH_ITEMS, "in_flight": 1},
                n=count,
                throughput_per_s=round(count / sum(seconds), 1),
                latency=Latency.of(seconds),
                measured={"batches": len(seconds), "outcomes": dict(outcomes)},
            )
        ]


def batches(items: Sequence[Each]) -> Iterator[Sequence[Each]]:
    """The items in their order, at most `BATCH_ITEMS` at a time."""
    for start in range(0, len(items), BATCH_ITEMS):
        yield items[start : start + BATCH_ITEMS]


async def store(connections: Connections, collection: Collection) -> None:
    """Writes a set, and waits until everything is embedded, in the index and in the graph.

    Raises:
        TimeoutError: It took longer than half an hour.
        TriviumError: The service did not answer.
    """
    loader = BatchLoader(connections)
    since = time.perf_counter()
    await loader.load(collection)
    await measure_projection(connections, collection, loader.tokens, since)


@asynccontextmanager
async def loaded(
    collection: Collection, address: str | None = None, callers: int = 1
) -> AsyncIterator[tuple[Target, Connections]]:
    """A service that has a set, with connections for as many callers; a new one without an address.

    Raises:
        ServiceStartError: It did not start.
        TimeoutError: The set was not projected within half an hour.
    """
    async with (
        running(address) as target,
        connected(target.address, connections_for(callers)) as connections,
    ):
        await store(connections, collection)
        yield target, connections


async def measure_projection(
    connections: Connections,
    collection: Collection,
    tokens: Mapping[str, str],
    since: float,
    *,
    without_graph: bool = False,
) -> Result:
    """Waits until everything is embedded, in the index and in the graph.

    `tokens` has the last one of each tenant; the first write began at `since`, by
    `time.perf_counter`. A machine without Neo4j never has the graph.

    Raises:
        TimeoutError: It took longer than half an hour.
    """
    async with asyncio.timeout(PROJECTED_WITHIN_S):
        for tenant, token in tokens.items():
            client = connections.client(tenant)
            while True:
                stats = await client.stats(timeout=30)
                if projected(stats, without_graph=without_graph):
                    break
                await asyncio.sleep(POLL_S)
            await _until_fresh(client, token)
    seconds = time.perf_counter() - since
    stats = await connections.client(next(iter(tokens))).stats(timeout=30)
    written = len(collection.segments) + collection.fact_count
    return Result(
        scenario="projected",
        n=written,
        throughput_per_s=round(written / seconds, 1),
        measured={
            "seconds": round(seconds, 2),
            "dead_letters": {each.projection: each.dead_letter_count for each in stats.projections},
            "vectors": stats.index.vector_count,
        },
    )


def projected(stats: Stats, *, without_graph: bool = False) -> bool:
    """Whether everything that was written is embedded, and in the graph unless that is left out."""
    counts = stats.tenant
    if counts is None or not stats.projections:
        return False  # the service did not count in time
    left_out = ("graph",) if without_graph else ()
    caught_up = not any(
        each.pending_count for each in stats.projections if each.projection not in left_out
    )
    return caught_up and counts.embedded_count >= counts.embeddable_count


async def _until_fresh(client: AsyncClient, token: str) -> None:
    """Queries with the token until no leg is stale."""
    late = (LegState.STALE, LegState.TIMED_OUT)
    while True:
        retrieval = await client.retrieve("What was said?", consistency_token=token, timeout=10)
        if not any(report.state in late for report in retrieval.leg_reports):
            return
        await asyncio.sleep(POLL_S)
