"""The host memory available to the process, and the memory needed by an index."""

from __future__ import annotations

from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")

COLUMN_BYTES = 400
"""Per row, approximately, without its vector: times, postings, its id and those of its evidence."""

SLOT_BYTES = 8

LISTS_OVERHEAD = 1.2
"""The memory of lists relative to that of their rows, since each list has spare capacity."""


def free_bytes(cgroup: Path = CGROUP) -> int:
    """The free memory of the machine or of the container, whichever is less.

    Where memory is overcommitted, exceeding it kills the process instead of raising an error.
    """
    available = int(psutil.virtual_memory().available)
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):
        return available
    return available if limit == "max" else max(0, min(available, int(limit) - used))


def planned_bytes(rows: int, dimension: int, *, in_lists: bool) -> int:
    """The planned memory of rows of float16 vectors, and of lists that hold them again."""
    row_bytes = 2 * dimension + COLUMN_BYTES
    list_bytes = LISTS_OVERHEAD * (2 * dimension + SLOT_BYTES) if in_lists else 0
    return int(rows * (row_bytes + list_bytes))
