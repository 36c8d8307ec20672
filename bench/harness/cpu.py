"""Measures the CPU time of the service's processes under load and idle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass

from bench.harness.load import Answer, Run
from bench.harness.processes import ServiceProcesses, machine_busy_s, spent
from bench.harness.results import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUse:
    """CPU seconds by role; `elsewhere_s` is the CPU time of unrelated processes."""

    wall_s: float
    by_role: Mapping[str, float]
    elsewhere_s: float

    @property
    def total_s(self) -> float:
        """Of all roles."""
        return sum(self.by_role.values())


class CpuMeter:
    """Reads the processes before and after.

    Args:
        processes: Those of the service; None if it runs elsewhere, and nothing is known.
    """

    def __init__(self, processes: ServiceProcesses | None) -> None:
        self._processes = processes

    async def over(self, loop: Awaitable[Run[Answer]]) -> tuple[Run[Answer], CpuUse | None]:
        """Runs the loop, and returns the CPU time it used."""
        if self._processes is None:
            return await loop, None
        before, busy, started = self._processes.cpu(), machine_busy_s(), time.perf_counter()
        run = await loop
        wall_s = time.perf_counter() - started
        by_role, busy_s = spent(before, self._processes.cpu()), machine_busy_s() - busy
        elsewhere_s = max(0.0, busy_s - sum(by_role.values()))
        return run, CpuUse(wall_s=wall_s, by_role=by_role, elsewhere_s=elsewhere_s)

    async def idle(self, seconds: float) -> CpuUse | None:
        """The CPU time without requests."""
        if self._processes is None:
            return None
        _, use = await self.over(_nothing(seconds))
        return use


async def _nothing(seconds: float) -> Run[None]:
    await asyncio.sleep(seconds)
    return Run([], seconds)


def per_request(use: CpuUse, idle: CpuUse | None, requests: int) -> dict[str, Json]:
    """CPU milliseconds per request by role, and the idle cost over the same time.

    The total includes the idle cost.
    """

    def share(seconds: float) -> float:
        return round(seconds * 1e3 / requests, 3)

    idle_s = {} if idle is None else _over(idle, use.wall_s)
    return {
        "total_ms": share(use.total_s),
        "idle_ms": share(sum(idle_s.values())),
        "by_role_ms": {role: share(seconds) for role, seconds in use.by_role.items()},
        "idle_by_role_ms": {role: share(seconds) for role, seconds in idle_s.items()},
        "cores_used": round(use.total_s / use.wall_s, 3),
        "cores_elsewhere": round(use.elsewhere_s / use.wall_s, 3),
    }


def _over(idle: CpuUse, wall_s: float) -> dict[str, float]:
    """The idle CPU seconds, scaled to another duration."""
    return {role: seconds * wall_s / idle.wall_s for role, seconds in idle.by_role.items()}
