"""Measures a tenant's answers beside another tenant that floods the service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle

from bench.harness.collection import Query
from bench.harness.connections import Connections
from bench.harness.load import open_loop, poisson_arrivals, silent
from bench.harness.results import Result
from bench.speed.overload.figures import NEIGHBOUR, result_of

NEIGHBOUR_SHARE = 0.1
"""Of the capacity, what the tenant offers that is looked at."""


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
