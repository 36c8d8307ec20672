"""Counts the CPU time of the service's processes, by what they are for."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

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
        """CPU seconds by role until now, the client's included.

        A child that ends hands its time over to its parent, so the sum over a tree of processes
        never decreases when processes start or end.
        """
        times = self._client.cpu_times()
        seconds = defaultdict(float, {CLIENT: times.user + times.system})
        for process in self._all():
            with contextlib.suppress(psutil.NoSuchProcess):  # its time went to its parent
                used = process.cpu_times()
                ended = used.children_user + used.children_system
                role = role_of(process.name(), process.cmdline())
                seconds[role] += used.user + used.system + ended
        return dict(seconds)

    def memory(self) -> dict[str, int]:
        """Bytes of memory by role, a shared page divided among those that have it (PSS)."""
        used: defaultdict[str, int] = defaultdict(int)
        for process in self._all():
            with contextlib.suppress(psutil.NoSuchProcess):
                used[role_of(process.name(), process.cmdline())] += process.memory_full_info().pss
        return dict(used)

    def _all(self) -> list[psutil.Process]:
        return [self._root, *self._root.children(recursive=True)]


def machine_busy_s() -> float:
    """CPU seconds that all cores were busy since boot, by any process."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)
