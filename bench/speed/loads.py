"""Loads at shares of a capacity, alone, and while another tenant floods the service or writes."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count, cycle, islice

from bench.harness.collection import Query
from bench.harness.connections import Connections
from bench.harness.load import (
    Ask,
    Call,
    Run,
    closed_loop,
    leg_states,
    meanwhile,
    open_loop,
    poisson_arrivals,
)
from bench.harness.results import Result, percentile, percentile_ms
from bench.speed.ingest import LEGS, mark_of, until_visible
from serving.pipeline.retrieval.legs.leg import NOTHING_TO_LOOK_UP
from trivium.aio import AsyncClient
from trivium.errors import OverloadedError
from trivium.values import Item, LegState, Retrieval, Segment

OVERLOAD = "overload"
NEIGHBOUR = "neighbour"
"""The calls of one tenant while another one flooded the service."""

WRITES = "during writes"
"""The calls of tenants while another one wrote as much as it could."""

REFUSED = "RESOURCE_EXHAUSTED"
LATE = "DEADLINE_EXCEEDED"

CAPACITY_CALLERS = 32
CALM_ANSWERS = 5
"""The number of consecutive whole answers in time that ends an overload."""

MAX_RECOVERY_S = 10.0
NEIGHBOUR_SHARE = 0.1
"""Of the capacity, what a tenant offers while another floods the service."""

BATCH = 64
WRITE_TIMEOUT_S = 30.0
MIN_DELAY = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class Offered:
    """Open loops at shares of a capacity, with one budget."""

    connections: Connections
    capacity_per_s: float
    budget_s: float
    seconds: float

    async def ask(self, query: Query) -> Retrieval:
        """Asks within the budget."""
        return await self.connections.ask(query, timeout=self.budget_s)

    async def load(self, queries: cycle[Query], share: float) -> Result:
        """Offers a share, and waits until the service has recovered."""
        arrivals = self._arrivals(share)
        started = time.perf_counter()
        run = await open_loop(self.ask, queries, arrivals)
        since = started + arrivals[-1]
        recovery_s = await recovery(self.ask, queries, self.budget_s, since=since)
        return self._result(OVERLOAD, run, share, share, arrivals, recovery_s)

    async def during_a_flood(
        self, queries: cycle[Query], others: cycle[Query], flood: float
    ) -> Result:
        """Offers a tenth for one tenant, and `flood` times the capacity for another."""
        arrivals = self._arrivals(NEIGHBOUR_SHARE)
        run, _ = await asyncio.gather(
            open_loop(self.ask, queries, arrivals),
            open_loop(self.ask, others, self._arrivals(flood, seed=1) if flood else []),
        )
        return self._result(NEIGHBOUR, run, flood, NEIGHBOUR_SHARE, arrivals)

    async def during_writes(self, queries: cycle[Query], writers: int) -> Result:
        """Offers a tenth for one tenant while another one writes as much as it can.

        A third one writes an item now and then, and asks each leg for it until it is found.
        """
        arrivals = self._arrivals(NEIGHBOUR_SHARE)
        written: Counter[str] = Counter()
        visible_s: list[float] = []
        flood = self.connections.client("bench-flood")
        mark = self.connections.client(f"bench-mark-{writers}")
        others = [_write_on(flood, writer, written) for writer in range(writers)]
        async with meanwhile(*others, _look_on(mark, visible_s)):
            run = await open_loop(self.ask, queries, arrivals)
        result = self._result(WRITES, run, float(writers), NEIGHBOUR_SHARE, arrivals)
        visible = {
            f"visible_p{share}_s": round(percentile(visible_s, share / 100), 3)
            for share in (50, 95)
            if visible_s
        }
        return replace(
            result,
            measured={
                **result.measured,
                "written_per_s": round(written["written"] / arrivals[-1], 1),
                "batches_refused": written["refused"],
                **visible,
            },
        )

    def _arrivals(self, share: float, seed: int = 0) -> list[float]:
        rate_per_s = share * self.capacity_per_s
        return poisson_arrivals(rate_per_s, max(1, round(rate_per_s * self.seconds)), seed)

    def _result(
        self,
        scenario: str,
        run: Run[Retrieval],
        name: float,
        share: float,
        arrivals: Sequence[float],
        recovery_s: float | None = None,
    ) -> Result:
        """Summarises a load of a share of the capacity, whose times count from when calls were due.

        `recovery_s` is the time from the last arrival until answers were whole and in time again;
        None if that was not awaited to its end.
        """
        refused = [call.seconds for call in run.calls if call.code == REFUSED]
        late = [call for call in run.calls if call.code == LATE]
        in_time = [seconds for seconds, _ in run.answered if seconds <= self.budget_s]
        whole = sum(is_whole_in_time(call, self.budget_s) for call in run.calls)
        result = run.result(
            scenario,
            {
                "budget_ms": round(self.budget_s * 1e3),
                "share": name,
                "rate_per_s": round(share * self.capacity_per_s, 1),
            },
            goodput_per_s=round(len(in_time) / arrivals[-1], 2),
            whole_per_s=round(whole / arrivals[-1], 2),
            refused_share=round(len(refused) / len(run.calls), 4),
            refused_p50_ms=percentile_ms(refused, 0.50, 2),
            refused_p95_ms=percentile_ms(refused, 0.95, 2),
            late_share=round(len(late) / len(run.calls), 4),
            leg_states=leg_states(answer for _, answer in run.answered),
            recovery_s=None if recovery_s is None else round(recovery_s, 2),
        )
        # Of the time in which calls arrived.
        return replace(result, throughput_per_s=round(len(run.answered) / arrivals[-1], 2))


def is_whole_in_time(call: Call[Retrieval], budget_s: float) -> bool:
    """Whether it was answered in time, by every leg of the profile that has something to search."""
    return (
        call.answer is not None
        and call.seconds <= budget_s
        and all(
            report.state is LegState.OK or report.reason == NOTHING_TO_LOOK_UP
            for report in call.answer.leg_reports
        )
    )


async def recovery(
    ask: Ask[Query, Retrieval],
    queries: cycle[Query],
    budget_s: float,
    since: float | None = None,
) -> float | None:
    """Asks one question after the other until a few answers in a row are whole and in time.

    Returns:
        The seconds until the first of these was asked; None if none were within ten seconds.
    """
    since = time.perf_counter() if since is None else since
    calm, first = 0, since
    while calm < CALM_ANSWERS:
        asked = time.perf_counter()
        if asked - since > MAX_RECOVERY_S:
            return None
        run = await closed_loop(ask, islice(queries, 1), 1)
        if not is_whole_in_time(run.calls[0], budget_s):
            calm = 0
            continue
        first = asked if calm == 0 else first
        calm += 1
    return max(0.0, first - since)


async def capacity(
    connections: Connections, queries: Iterator[Query], calls: int
) -> Run[Retrieval]:
    """Asks in a closed loop, first to warm up; returns the run after that."""
    await closed_loop(connections.ask, islice(queries, calls), CAPACITY_CALLERS)
    return await closed_loop(connections.ask, islice(queries, calls), CAPACITY_CALLERS)


# ---------------------------------------------------------------- writers


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
        written["refused"] += await _write(client, batch)
        written["written"] += BATCH


async def _write(client: AsyncClient, items: Sequence[Item]) -> int:
    """Writes items, again and again until that is not refused; returns how often it was."""
    refused = 0
    while True:
        try:
            await client.ingest(items, timeout=WRITE_TIMEOUT_S)
        except OverloadedError as error:
            refused += 1
            await asyncio.sleep((error.retry_delay or MIN_DELAY).total_seconds())
        else:
            return refused


async def _look_on(client: AsyncClient, visible_s: list[float]) -> None:
    for number in count():
        mark = mark_of(number)
        await _write(client, mark)
        written_at = time.perf_counter()
        found = await asyncio.gather(
            *(until_visible(client, leg, mark, "", written_at) for leg in LEGS)
        )
        visible_s.append(max(each if each is not None else float("inf") for each in found))
