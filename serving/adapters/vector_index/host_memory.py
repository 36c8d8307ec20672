"""How much memory a process may still take."""

from __future__ import annotations

from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")


def free_bytes(cgroup: Path = CGROUP) -> int:
    """What is left of the machine's memory and of the container's, whichever is less.

    Where memory is overcommitted, asking for more ends the process and raises nothing.
    """
    available = int(psutil.virtual_memory().available)
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):
        return available
    return available if limit == "max" else max(0, min(available, int(limit) - used))
