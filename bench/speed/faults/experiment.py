"""Loads a service steadily while one fault after the other begins and ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

from bench.harness.collection import Query
from bench.harness.load import Ask, Run, open_loop, poisson_arrivals
from bench.speed.faults.dependencies import Fault
from trivium.values import Retrieval


class Faulty(Protocol):
    """What a fault can befall."""

    name: str

    @property
    def faults(self) -> Collection[Fault]:
        """Those that it can have."""
        ...

    async def begin(self, fault: Fault) -> None:
        """Lets a fault begin."""
        ...

    async def end(self, fault: Fault) -> None:
        """Ends it; returns when the dependency is back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long, in seconds, calls arrive before, during and after a fault."""

    before_s: float
    during_s: float
    after_s: float

    @property
    def total_s(self) -> float:
        """All three."""
        return self.before_s + self.during_s + self.after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The calls around a fault.

    `began_s` and `ended_s` are in seconds from the first call; the fault has ended when the
    dependency is back.
    """

    dependency: str
    fault: Fault
    run: Run[Retrieval]
    began_s: float
    ended_s: float


async def observe(
    dependency: Faulty,
    fault: Fault,
    ask: Ask[Query, Retrieval],
    queries: Iterator[Query],
    rate_per_s: float,
    timing: Timing,
    advance: Callable[[], None],
) -> Observed:
    """Asks at a steady rate while a fault begins and ends."""
    arrivals = poisson_arrivals(rate_per_s, max(1, round(rate_per_s * timing.total_s)))
    started = time.perf_counter()
    load = asyncio.create_task(open_loop(ask, queries, arrivals, advance))
    try:
        await asyncio.sleep(timing.before_s)
        began_s = time.perf_counter() - started
        try:
            await dependency.begin(fault)
            await asyncio.sleep(timing.during_s)
        finally:
            await dependency.end(fault)
        ended_s = time.perf_counter() - started
        run = await load
    finally:
        load.cancel()
    return Observed(
        dependency=dependency.name, fault=fault, run=run, began_s=began_s, ended_s=ended_s
    )
