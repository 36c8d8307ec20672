"""Counts the CPU time of the service's processes, by what they are for."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import psutil

CLIENT = "client"
_REPLICA = re.compile(r"ray::ServeReplica:[^:]+:(?P<deployment>\w+)")


def role_of(name: str, command: Sequence[str]) -> str:
    """The role of a process.

    Args:
        name: Of its executable.
        command: Its command line, which Ray and PostgreSQL overwrite by titles.
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
    if "-m serving" in line:
        return "desk"
    return "ray"


@dataclass(frozen=True, slots=True)
class CpuReading:
    """CPU seconds of one process: its own, and those of its children that have ended.

    A child that ends hands its time over to its parent, so the sum over a
    tree of processes never decreases when processes start or end.
    """

    role: str
    own_s: float
    ended_children_s: float


def cpu_by_role(readings: Iterable[CpuReading]) -> dict[str, float]:
    """CPU seconds, summed by role."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for reading in readings:
        seconds[reading.role] += reading.own_s + reading.ended_children_s
    return dict(seconds)


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """CPU seconds by role between two readings; never below 0.

    A role can lose a little when a child of it ends under a parent of another role.
    """
    return {role: max(0.0, after[role] - before.get(role, 0.0)) for role in after}


class ServiceProcesses:
    """The processes below the one that was started, and this one as the client."""

    def __init__(self, root_pid: int) -> None:
        self._root = psutil.Process(root_pid)
        self._client = psutil.Process()

    def cpu(self) -> dict[str, float]:
        """CPU seconds by role until now, the client's included."""
        readings = [reading for process in self._all() if (reading := _read_cpu(process))]
        times = self._client.cpu_times()
        client = CpuReading(CLIENT, times.user + times.system, 0.0)
        return cpu_by_role([*readings, client])

    def _all(self) -> Iterator[psutil.Process]:
        yield self._root
        yield from self._root.children(recursive=True)


def machine_busy_s() -> float:
    """CPU seconds that all cores were busy since boot, by any process."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


def _role(process: psutil.Process) -> str:
    return role_of(process.name(), process.cmdline())


def _read_cpu(process: psutil.Process) -> CpuReading | None:
    """None for a process that ended just now: its time went to its parent."""
    try:
        times = process.cpu_times()
        own, children = times.user + times.system, times.children_user + times.children_system
        return CpuReading(_role(process), own, children)
    except psutil.NoSuchProcess:
        return None
