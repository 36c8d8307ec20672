"""Measures writing: single segments, whole batches, and when each leg finds what was written."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from bench.harness.connections import Connections
from bench.harness.results import Latency, Result
from serving.pipeline.retrieval import legs
from trivium.aio import AsyncClient
from trivium.values import Fact, LegOverride, Segment

LEGS = (legs.LexicalLeg.name, legs.DenseLeg.name, legs.FactsLeg.name, legs.GraphLeg.name)
ALL_LEGS = (*LEGS, legs.ContextLeg.name, legs.RelatedLeg.name)
SINGLES = 300
WARM_UP = 30
MARKS = 20
VISIBLE_WITHIN_S = 30.0

SINGLE_TENANT = "bench-single"
MARK_TENANT = "bench-mark"


def only(*names: str) -> dict[str, LegOverride]:
    """Overrides that turn all other legs off."""
    return {leg: LegOverride(weight=0.0) for leg in ALL_LEGS if leg not in names}


async def measure_singles(connections: Connections, segments: Sequence[Segment]) -> Result:
    """Writes segments one by one, each when the one before is acknowledged; then forgets them."""
    client = connections.client(SINGLE_TENANT)
    seconds: list[float] = []
    for segment in islice(segments, SINGLES + WARM_UP):
        started = time.perf_counter()
        await client.ingest([segment])
        seconds.append(time.perf_counter() - started)
    await client.forget(everything=True)
    measured = seconds[WARM_UP:] or seconds
    return Result(
        scenario="ingest single",
        n=len(measured),
        throughput_per_s=round(len(measured) / sum(measured), 2),
        latency=Latency.of(measured),
    )


async def measure_visibility(connections: Connections) -> list[Result]:
    """Writes to an idle service, and queries each leg until it finds the write.

    Each leg is queried alone, with the token of the write, all of them concurrently.
    """
    client = connections.client(MARK_TENANT)
    seconds: dict[str, list[float]] = {leg: [] for leg in LEGS}
    missed: Counter[str] = Counter()
    for number in range(MARKS):
        mark = mark_of(number)
        token = (await client.ingest(mark)).consistency_token
        acknowledged = time.perf_counter()
        found = await asyncio.gather(
            *(until_visible(client, leg, mark, token, acknowledged) for leg in LEGS)
        )
        for leg, after_s in zip(LEGS, found, strict=True):
            if after_s is None:
                missed[leg] += 1
            else:
                seconds[leg].append(after_s)
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
    """A segment and a fact with this evidence, of unique entities."""
    person, thing = f"Marker{number} Quill", f"lantern{number} of Varda"
    segment = Segment(
        id=f"mark-{number}",
        text=f"{person} keeps the {thing} in the cellar.",
        speaker=person,
        entities=(person, thing),
    )
    fact = Fact(
        id=f"mark-fact-{number}",
        subject=person,
        relation="keeps",
        object=thing,
        evidence=(segment.id,),
    )
    return segment, fact


async def until_visible(
    client: AsyncClient, leg: str, mark: tuple[Segment, Fact], token: str, since: float
) -> float | None:
    """Seconds until the leg finds the segment; None if it never does.

    Without a token it asks again and again.
    """
    segment, fact = mark
    question = f"What does {fact.subject} keep?"
    while time.perf_counter() - since < VISIBLE_WITHIN_S:
        retrieval = await client.retrieve(
            question, consistency_token=token, leg_overrides=only(leg), timeout=VISIBLE_WITHIN_S
        )
        if retrieval.rank_of([segment.id]) is not None:
            return time.perf_counter() - since
        await asyncio.sleep(0.005)
    return None
