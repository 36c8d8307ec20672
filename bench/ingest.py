"""Measures writing: single segments, whole batches, and when each leg finds what was written."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from bench.collection import Collection
from bench.connections import Connections
from bench.latency import Latency
from bench.load import Advance
from bench.results import Json, Result
from serving.pipeline.legs import RELATED
from trivium.aio import AsyncClient
from trivium.values import Fact, IngestResult, Item, LegOverride, LegState, Segment, Stats

LEGS = ("lexical", "dense", "facts", "graph")
BATCH_ITEMS = 256
SINGLES = 300
WARM_UP = 30
MARKS = 20
VISIBLE_WITHIN_S = 30.0
PROJECTED_WITHIN_S = 1800.0
POLL_S = 0.1

SINGLE_TENANT = "bench-single"
MARK_TENANT = "bench-mark"


def only(*legs: str) -> dict[str, LegOverride]:
    """Overrides that turn all other legs off, and what leads on from them."""
    return {leg: LegOverride(weight=0.0) for leg in (*LEGS, RELATED) if leg not in legs}


async def measure_singles(
    connections: Connections, segments: Sequence[Segment], advance: Advance
) -> Result:
    """Writes segments one by one, each when the one before is acknowledged; then forgets them."""
    client = connections.client(SINGLE_TENANT)
    seconds: list[float] = []
    for segment in islice(segments, SINGLES + WARM_UP):
        started = time.perf_counter()
        await client.ingest([segment])
        seconds.append(time.perf_counter() - started)
        advance()
    await client.forget(everything=True)
    measured = seconds[WARM_UP:]
    return Result(
        scenario="ingest single",
        n=len(measured),
        throughput_per_s=round(len(measured) / sum(measured), 2),
        latency=Latency.of(measured),
    )


class BatchLoader:
    """Writes a collection in batches, segments first, one batch at a time."""

    def __init__(self, connections: Connections, advance: Callable[[int], None]) -> None:
        self._connections = connections
        self._advance = advance
        self._outcomes: Counter[str] = Counter()
        self.tokens: dict[str, str] = {}

    async def load(self, collection: Collection) -> list[Result]:
        """Writes all of it, segments and then facts, and says how fast it was acknowledged."""
        memories = collection.memories.items()
        segments = await self._load("segments", {name: each.segments for name, each in memories})
        facts = await self._load("facts", {name: each.facts for name, each in memories})
        return [result for result in (segments, facts) if result is not None]

    async def _load(self, kind: str, items: Mapping[str, Sequence[Item]]) -> Result | None:
        self._outcomes.clear()
        seconds = [
            await self._write(tenant, batch)
            for tenant, of_tenant in items.items()
            for batch in batches(of_tenant)
        ]
        if not seconds:
            return None
        return Result(
            scenario="ingest batches",
            parameters={"kind": kind, "batch": BATCH_ITEMS, "in_flight": 1},
            n=sum(map(len, items.values())),
            throughput_per_s=round(sum(map(len, items.values())) / sum(seconds), 1),
            latency=Latency.of(seconds),
            measured={"batches": len(seconds), "outcomes": dict(self._outcomes)},
        )

    async def _write(self, tenant: str, batch: Sequence[Item]) -> float:
        started = time.perf_counter()
        result = await self._connections.client(tenant).ingest(batch)
        seconds = time.perf_counter() - started
        self._take(tenant, result)
        self._advance(len(batch))
        return seconds

    def _take(self, tenant: str, result: IngestResult) -> None:
        self._outcomes.update(outcome.state.value for outcome in result.outcomes)
        self.tokens[tenant] = result.token or self.tokens.get(tenant, "")


def batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """The items in their order, at most `BATCH_ITEMS` at a time."""
    for start in range(0, len(items), BATCH_ITEMS):
        yield items[start : start + BATCH_ITEMS]


async def measure_projection(
    connections: Connections, collection: Collection, tokens: Mapping[str, str], since: float
) -> Result:
    """Waits until everything is embedded, in the index and in the graph.

    Args:
        connections: To the service.
        collection: What was written.
        tokens: The last token of each tenant.
        since: When the first write began, by `time.perf_counter`.

    Raises:
        TimeoutError: It took longer than half an hour.
    """
    async with asyncio.timeout(PROJECTED_WITHIN_S):
        for tenant, token in tokens.items():
            client = connections.client(tenant)
            await _until_projected(client)
            await _until_fresh(client, token)
    seconds = time.perf_counter() - since
    stats = await connections.client(next(iter(tokens))).stats(timeout=30)
    written = collection.segment_count + collection.fact_count
    return Result(
        scenario="projected",
        n=written,
        throughput_per_s=round(written / seconds, 1),
        measured={
            "seconds": round(seconds, 2),
            "set_aside": {each.projection: each.set_aside_count for each in stats.projections},
            "vectors": stats.index.vector_count,
        },
    )


async def _until_projected(client: AsyncClient) -> None:
    while True:
        if projected(await client.stats(timeout=30)):
            return
        await asyncio.sleep(POLL_S)


def projected(stats: Stats) -> bool:
    """Whether everything that was written is embedded and in the graph."""
    caught_up = not any(each.pending_count for each in stats.projections)
    return caught_up and stats.tenant.embedded_count >= stats.tenant.embeddable_count


async def _until_fresh(client: AsyncClient, token: str) -> None:
    """Asks with the token, which the legs wait for, until none is stale."""
    late = (LegState.STALE, LegState.TIMED_OUT)
    while True:
        retrieval = await client.retrieve("What was said?", token=token, timeout=10)
        if not any(report.state in late for report in retrieval.leg_reports):
            return
        await asyncio.sleep(POLL_S)


async def measure_visibility(connections: Connections, advance: Advance) -> list[Result]:
    """Writes something to an idle service, and asks each leg until it finds it.

    Each leg is asked alone, with the token of the write, all of them at once.
    """
    client = connections.client(MARK_TENANT)
    seconds: dict[str, list[float]] = {leg: [] for leg in LEGS}
    missed: Counter[str] = Counter()
    for number in range(MARKS):
        mark = mark_of(number)
        token = (await client.ingest(mark)).token
        acknowledged = time.perf_counter()
        found = await asyncio.gather(
            *(_until_visible(client, leg, mark, token, acknowledged) for leg in LEGS)
        )
        for leg, after_s in zip(LEGS, found, strict=True):
            if after_s is None:
                missed[leg] += 1
            else:
                seconds[leg].append(after_s)
        advance()
    await client.forget(everything=True)
    return [
        Result(
            scenario="visible after",
            parameters={"leg": leg},
            n=MARKS,
            latency=Latency.of(times) if times else None,
            errors={"NEVER": missed[leg]} if missed[leg] else {},
        )
        for leg, times in seconds.items()
    ]


def mark_of(number: int) -> tuple[Segment, Fact]:
    """A segment and a fact that rests on it, of entities that nobody else has."""
    keeper, thing = f"Marker{number} Quill", f"lantern{number} of Varda"
    segment = Segment(
        id=f"mark-{number}",
        text=f"{keeper} keeps the {thing} in the cellar.",
        speaker=keeper,
        entities=(keeper, thing),
    )
    fact = Fact(
        id=f"mark-fact-{number}",
        subject=keeper,
        relation="keeps",
        object=thing,
        evidence=(segment.id,),
    )
    return segment, fact


async def _until_visible(
    client: AsyncClient, leg: str, mark: tuple[Segment, Fact], token: str, since: float
) -> float | None:
    """Seconds until the leg finds the segment; None if it never does."""
    segment, fact = mark
    question = f"What does {fact.subject} keep?"
    while time.perf_counter() - since < VISIBLE_WITHIN_S:
        retrieval = await client.retrieve(
            question, token=token, overrides=only(leg), timeout=VISIBLE_WITHIN_S
        )
        if retrieval.rank_of([segment.id]) is not None:
            return time.perf_counter() - since
        await asyncio.sleep(0.005)
    return None


def memory_result(by_role: Mapping[str, Mapping[str, Json]], when: str) -> Result:
    """The memory of the service's processes, in MiB."""
    return Result(
        scenario="memory", parameters={"when": when}, n=1, measured={"mib_by_role": by_role}
    )
