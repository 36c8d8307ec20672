"""Measures the CPU time of the service's processes under load."""

from __future__ import annotations

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

    def per_request(self, requests: int) -> dict[str, Json]:
        """CPU milliseconds per request, all and by role, and the cores that were used."""
        total_s = sum(self.by_role.values())
        return {
            "total_ms": round(total_s * 1e3 / requests, 3),
            "by_role_ms": {
                role: round(seconds * 1e3 / requests, 3) for role, seconds in self.by_role.items()
            },
            "cores_used": round(total_s / self.wall_s, 3),
            "cores_elsewhere": round(self.elsewhere_s / self.wall_s, 3),
        }


async def cpu_over(
    processes: ServiceProcesses, loop: Awaitable[Run[Answer]]
) -> tuple[Run[Answer], CpuUse]:
    """Runs the loop, and returns the CPU time that it used."""
    before, busy, started = processes.cpu(), machine_busy_s(), time.perf_counter()
    run = await loop
    wall_s = time.perf_counter() - started
    by_role, busy_s = spent(before, processes.cpu()), machine_busy_s() - busy
    elsewhere_s = max(0.0, busy_s - sum(by_role.values()))
    return run, CpuUse(wall_s=wall_s, by_role=by_role, elsewhere_s=elsewhere_s)
