"""The CPU time and the memory of the service's processes, by what they are for."""

from __future__ import annotations

import contextlib
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import psutil

from bench.harness.results import Json

Returned = TypeVar("Returned")

CLIENT = "client"
_REPLICA = re.compile(r"ray::ServeReplica:[^:]+:(?P<deployment>\w+)")


def role_of(name: str, command: Sequence[str]) -> str:
    """The role of a process, by its executable and its command line.

    Ray and PostgreSQL overwrite their command lines by titles.
    """
    line = " ".join(command)
    if name.startswith("postgres"):
        return "postgres"
    if "embedded_neo4j" in line:
        return "neo4j"
    if name.startswith("haproxy"):
        return "haproxy"
    if replica := _REPLICA.match(line):
        return f"replica {replica['deployment']}"
    return "desk" if "-m serving" in line else "ray"


class ServiceProcesses:
    """The processes below the one that was started, and this one as the client."""

    def __init__(self, root_pid: int) -> None:
        self._root = psutil.Process(root_pid)
        self._client = psutil.Process()

    def cpu(self) -> dict[str, float]:
        """CPU seconds by role until now, the client's included.

        A child that ends hands its time over to its parent, so the sum over a tree of processes
        never decreases when processes start or end.
        """
        times = self._client.cpu_times()
        seconds = defaultdict(float, {CLIENT: times.user + times.system})
        for role, process in self.by_role():
            with contextlib.suppress(psutil.NoSuchProcess):  # its time went to its parent
                used = process.cpu_times()
                ended = used.children_user + used.children_system
                seconds[role] += used.user + used.system + ended
        return dict(seconds)

    def memory(self) -> dict[str, int]:
        """Bytes of memory by role, a shared page divided among those that have it (PSS)."""
        used: defaultdict[str, int] = defaultdict(int)
        for role, process in self.by_role():
            with contextlib.suppress(psutil.NoSuchProcess):
                used[role] += process.memory_full_info().pss
        return dict(used)

    def by_role(self) -> Iterator[tuple[str, psutil.Process]]:
        """The processes of the service, with what each is for."""
        for process in [self._root, *self._root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                yield role_of(process.name(), process.cmdline()), process


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """CPU seconds by role between two readings; never below 0.

    A role can lose a little when a child of it ends under a parent of another role.
    """
    return {role: max(0.0, after[role] - before.get(role, 0.0)) for role in after}


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
    cpu: Callable[[], Mapping[str, float]], work: Awaitable[Returned]
) -> tuple[Returned, CpuUse]:
    """Does the work, and returns the CPU time that it used, by readings before and after."""
    before, busy_s, started = cpu(), _machine_busy_s(), time.perf_counter()
    returned = await work
    wall_s = time.perf_counter() - started
    by_role = spent(before, cpu())
    elsewhere_s = max(0.0, _machine_busy_s() - busy_s - sum(by_role.values()))
    return returned, CpuUse(wall_s=wall_s, by_role=by_role, elsewhere_s=elsewhere_s)


def _machine_busy_s() -> float:
    """CPU seconds that all cores were busy since boot, by any process."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)
