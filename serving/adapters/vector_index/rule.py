"""When a partition is in inverted lists, how many it has and a search reads, and their memory.

Rows that memory reads in about 2 ms are scanned, which misses nothing. More of them are in lists,
as many as grow with the root of the rows, and a fixed number of these is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

MAX_SCANNED_BYTES = {"cpu": 80_000_000, "cuda": 6_000_000_000}
"""By device type, what is read in about 2 ms at 40 GB/s and at 3 TB/s: 100,000 vectors of 384 in
float16, and 3 million of 1,024."""

HOST_VALUES = 4_000_000
"""Of a partition that stays on the host though there is a device: rows times dimension. On one core
10,000 rows of 384 are scanned in .33 ms; one search of any size takes an H200 .45 ms."""

VALUE_BYTES = 2
"""Vectors are stored in float16."""

LISTS_PER_ROOT_OF_ROWS = 4
"""At 100,000 rows, 1,024 lists reach the recall of 316 with 6 % instead of 20 % of the rows."""

N_PROBES = ((250_000, 192), (math.inf, 96))
"""The number of lists that are read, by the number of rows.

Measured by `python -m bench.index.searches`, recall@10 and CPU time of a search of the lists, for
mixtures of topics in 384 dimensions, on 26 November 2026:

* 100,000 rows: 192 of 1,264 lists .989 in 1.8 ms, 96 of them .983 in .9 ms,
* 300,000 rows: 96 of 2,192 lists .995 in 1.5 ms, 24 of them .993;

and on 22 November 2026, 1,000,000 rows: 24 of 4,000 lists .994 in 1.0 ms."""

MIN_TRAINED_PER_LIST, MAX_TRAINED_PER_LIST = 64, 256
MAX_TRAINED_ROWS = 262_144
"""Unless each list would have too few of them; time grows with rows times lists."""

MAX_CANDIDATES = 256
"""Above this many results cuVS leaves its fast path; larger requests are answered by a scan."""

EXTRA_CANDIDATES = 16
"""Additional candidates to score again in float32; with 16, float16 lost none of 10."""

COLUMN_BYTES = 400
"""Per row, approximately, without its vector: times, postings, its id and those of its evidence."""

SLOT_BYTES = 8

LISTS_OVERHEAD = 1.2
"""The memory of lists relative to that of their rows, since each list has spare capacity."""

MAX_DEAD_SHARE = 0.2
MAX_GROWTH = 2.0

RebuildReason = Literal["grown", "shrunk", "tombstones", "full", "doubled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRule:
    """The rule of one index.

    Up to `max_scanned_rows` are scanned, of a partition or of those that pass a filter. There are
    `min_lists` if there are enough rows; with fewer than `min_rows_per_list`, centroids are noise.
    Lists are extended by `min_tail` rows at least. Partitions with room for up to `host_rows` stay
    on the host.
    """

    max_scanned_rows: int
    min_lists: int = 32
    min_rows_per_list: int = 32
    min_tail: int = 1024
    host_rows: int = 0

    @classmethod
    def of(cls, dimension: int, device: str) -> IndexRule:
        """The rule for vectors on a device, as torch names it."""
        limit = MAX_SCANNED_BYTES[device.partition(":")[0]]
        return cls(
            max_scanned_rows=limit // (VALUE_BYTES * dimension),
            host_rows=HOST_VALUES // dimension,
        )

    def n_lists(self, rows: int) -> int:
        wanted = max(self.min_lists, 8 * round(LISTS_PER_ROOT_OF_ROWS * math.sqrt(rows) / 8))
        return max(1, min(wanted, rows // self.min_rows_per_list))

    def is_tail_full(self, tail: int, n_lists: int) -> bool:
        return tail >= max(self.min_tail, n_lists)

    def rebuild_reason(
        self, alive: int, dead: int, trained_rows: int | None, *, full: bool = False
    ) -> RebuildReason | None:
        """Why a partition must be rebuilt, with lists or without; None if it need not be.

        Dead rows occupy memory. `trained_rows` are those that its lists were trained for, None if
        there are no lists; `full` is whether there was no memory to extend them.
        """
        if trained_rows is None:
            return "grown" if alive > self.max_scanned_rows else None
        if alive <= self.max_scanned_rows / 2:
            return "shrunk"
        if dead > MAX_DEAD_SHARE * (alive + dead):
            return "tombstones"
        if full:
            return "full"
        return "doubled" if alive > MAX_GROWTH * trained_rows else None


def n_probes(rows: int, n_lists: int, passing: float) -> int:
    """The number of lists to read, of `n_lists` with these rows.

    The fewer rows pass its filter, a share above 0, the more lists: as many passing rows are read
    as without one.
    """
    wanted = next(probes for limit, probes in N_PROBES if rows <= limit)
    return min(n_lists, math.ceil(wanted / passing))


def training_rows(n_lists: int, rows: int) -> int:
    """The number of rows to train lists on."""
    per_list = MAX_TRAINED_ROWS // n_lists
    per_list = max(MIN_TRAINED_PER_LIST, min(per_list, MAX_TRAINED_PER_LIST))
    return min(rows, n_lists * per_list)


def candidates_for(depth: int) -> int | None:
    """The number of candidates to fetch from the lists; None if they cannot return enough."""
    wanted = max(depth + EXTRA_CANDIDATES, min(2 * depth, MAX_CANDIDATES))
    return wanted if wanted <= MAX_CANDIDATES else None


def planned_bytes(rows: int, dimension: int, *, in_lists: bool) -> int:
    """The planned memory of rows of float16 vectors, and of lists that hold them again."""
    vector_bytes = VALUE_BYTES * dimension
    list_bytes = LISTS_OVERHEAD * (vector_bytes + SLOT_BYTES) if in_lists else 0
    return int(rows * (vector_bytes + COLUMN_BYTES + list_bytes))
