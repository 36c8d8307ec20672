"""Measures a tenant's answers, and its writes, while another tenant floods the service."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count, cycle

from bench.harness.collection import Query
from bench.harness.connections import Connections
from bench.harness.latency import percentile
from bench.harness.load import open_loop, poisson_arrivals, silent
from bench.harness.results import Result
from bench.speed.ingest import LEGS, mark_of, until_visible
from bench.speed.overload.figures import NEIGHBOUR, WRITES, result_of
from trivium.aio import AsyncClient
from trivium.errors import OverloadedError
from trivium.values import Item, Segment

NEIGHBOUR_SHARE = 0.1
"""Of the capacity, what the tenant offers that is looked at."""

BATCH = 64
WRITE_TIMEOUT_S = 30.0
LEAST_DELAY = timedelta(milliseconds=100)


def queries_of_two(queries: Sequence[Query]) -> Sequence[cycle[Query]]:
    """The queries of the first two tenants, each again and again; fewer if there are fewer."""
    by_tenant: dict[str, list[Query]] = {}
    for query in queries:
        by_tenant.setdefault(query.tenant, []).append(query)
    return [cycle(each) for each in list(by_tenant.values())[:2]]


async def beside_a_flood(
    connections: Connections,
    tenants: Sequence[cycle[Query]],
    *,
    capacity_per_s: float,
    budget_s: float,
    flood: float,
    seconds: float,
) -> Result:
    """Offers a tenth of the capacity for the first tenant, and a flood for the second.

    Args:
        connections: To the service.
        tenants: The queries of both.
        capacity_per_s: Of the service.
        budget_s: What callers give each call.
        flood: What the second tenant offers, as a multiple of the capacity; 0 for none.
        seconds: How long both go on.

    Returns:
        What the first tenant saw.
    """
    rates = (NEIGHBOUR_SHARE * capacity_per_s, flood * capacity_per_s)
    arrivals = [
        poisson_arrivals(rate, max(1, round(rate * seconds)), seed) if rate else []
        for seed, rate in enumerate(rates)
    ]
    ask = partial(connections.ask, timeout=budget_s)
    run, _ = await asyncio.gather(
        *(
            open_loop(ask, queries, due, silent)
            for queries, due in zip(tenants, arrivals, strict=True)
        )
    )
    result = result_of(
        run,
        share=flood,
        rate_per_s=rates[0],
        budget_s=budget_s,
        offered_s=arrivals[0][-1],
        recovery_s=None,
    )
    return replace(result, scenario=NEIGHBOUR)


async def beside_writes(
    connections: Connections,
    queries: cycle[Query],
    *,
    capacity_per_s: float,
    budget_s: float,
    writers: int,
    seconds: float,
) -> Result:
    """Offers a tenth of the capacity for a tenant while another one writes as much as it can.

    A third one writes an item now and then, and asks each leg for it until it is found.

    Args:
        connections: To the service.
        queries: Of the first tenant.
        capacity_per_s: Of the service.
        budget_s: What callers give each question.
        writers: How many batches the second tenant writes at a time; 0 for none.
        seconds: How long all go on.

    Returns:
        What the first and the third tenant saw.
    """
    rate_per_s = NEIGHBOUR_SHARE * capacity_per_s
    arrivals = poisson_arrivals(rate_per_s, max(1, round(rate_per_s * seconds)))
    written: Counter[str] = Counter()
    visible_s: list[float] = []
    others = [
        asyncio.create_task(_write_on(connections.client("bench-flood"), writer, written))
        for writer in range(writers)
    ]
    others.append(asyncio.create_task(_look_on(connections, f"bench-mark-{writers}", visible_s)))
    try:
        ask = partial(connections.ask, timeout=budget_s)
        run = await open_loop(ask, queries, arrivals, silent)
    finally:
        for other in others:
            other.cancel()
        ended = await asyncio.gather(*others, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error
    result = result_of(
        run,
        share=float(writers),
        rate_per_s=rate_per_s,
        budget_s=budget_s,
        offered_s=arrivals[-1],
        recovery_s=None,
    )
    return replace(
        result,
        scenario=WRITES,
        measured={
            **result.measured,
            "written_per_s": round(written["written"] / arrivals[-1], 1),
            "batches_refused": written["refused"],
            "marks": len(visible_s),
            "visible_p50_s": round(percentile(sorted(visible_s), 0.5), 3) if visible_s else None,
            "visible_p95_s": round(percentile(sorted(visible_s), 0.95), 3) if visible_s else None,
        },
    )


async def _write_on(client: AsyncClient, writer: int, written: Counter[str]) -> None:
    for number in count():
        batch = [
            Segment(
                id=f"{writer}-{number}-{place}",
                speaker="Mara",
                text=f"Shipment {number} of {place} crates from Porto reached Writer{writer} late.",
            )
            for place in range(BATCH)
        ]
        written["refused"] += await _written(client, batch)
        written["written"] += BATCH


async def _written(client: AsyncClient, items: Sequence[Item]) -> int:
    """Writes items, again and again until that is not refused; returns how often it was."""
    refused = 0
    while True:
        try:
            await client.ingest(items, timeout=WRITE_TIMEOUT_S)
        except OverloadedError as error:
            refused += 1
            delay = error.retry_delay or LEAST_DELAY
            await asyncio.sleep(delay.total_seconds())
        else:
            return refused


async def _look_on(connections: Connections, tenant: str, visible_s: list[float]) -> None:
    client = connections.client(tenant)
    for number in count():
        mark = mark_of(number)
        await _written(client, mark)
        written_at = time.perf_counter()
        found = await asyncio.gather(
            *(until_visible(client, leg, mark, "", written_at) for leg in LEGS)
        )
        visible_s.append(max(each if each is not None else float("inf") for each in found))
