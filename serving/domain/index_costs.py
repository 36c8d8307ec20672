"""What an index costs: from how many rows on lists pay, and the memory that rows take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_EXACT_ROWS, MOST_EXACT_ROWS = 20_000, 10_000_000
"""Between these the threshold is measured. Below, a scan takes a millisecond and misses nothing."""

WORTH_IT = 2.0
"""Lists may miss a row in fifty, so they must take at most half of the time of a scan."""

LISTS_OVERHEAD = 1.2
"""Memory of lists by that of their rows, since each list has room to grow."""

SLOT_BYTES = 8
COLUMN_BYTES = 400
"""About what a row has beside its vector: times, postings, its name and those of its evidence."""


@dataclass(frozen=True, slots=True)
class Line:
    """Time by rows: `at_none` seconds, and `per_row` more for each."""

    at_none: float
    per_row: float

    @classmethod
    def through(cls, points: Sequence[tuple[int, float]]) -> Line:
        """Fits (rows, seconds) by least squares; no time falls with more rows, nor is negative.

        Raises:
            ValueError: There are fewer than two numbers of rows.
        """
        count = len(points)
        mean_rows = sum(rows for rows, _ in points) / count if count else 0.0
        mean_time = sum(time for _, time in points) / count if count else 0.0
        spread = sum((rows - mean_rows) ** 2 for rows, _ in points)
        if not spread:
            raise ValueError("a line needs times of two different numbers of rows")
        rise = sum((rows - mean_rows) * (time - mean_time) for rows, time in points) / spread
        per_row = max(rise, 0.0)
        return cls(max(mean_time - per_row * mean_rows, 0.0), per_row)


def exact_max_rows(exact: Line, lists: Line) -> int:
    """Up to how many rows a scan is to be preferred, on the device that both were timed on."""
    saved_per_row = exact.per_row - WORTH_IT * lists.per_row
    if saved_per_row <= 0:
        return MOST_EXACT_ROWS
    crossing = (WORTH_IT * lists.at_none - exact.at_none) / saved_per_row
    return max(LEAST_EXACT_ROWS, min(math.ceil(crossing), MOST_EXACT_ROWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """The bytes that rows take, once in lists and while they are put into new ones.

    `n_lists` is 0 for rows that are read exactly.
    """

    rows: int
    dimension: int
    n_lists: int = 0

    @property
    def vector_bytes(self) -> int:
        """Of the vectors as float16."""
        return self.rows * 2 * self.dimension

    @property
    def store_bytes(self) -> int:
        """Of the vectors, and the columns beside them."""
        return self.vector_bytes + self.rows * COLUMN_BYTES

    @property
    def lists_bytes(self) -> int:
        """Of the lists and their centres."""
        if not self.n_lists:
            return 0
        rows = self.rows * (2 * self.dimension + SLOT_BYTES)
        return int(LISTS_OVERHEAD * rows) + self.n_lists * 4 * self.dimension

    @property
    def total_bytes(self) -> int:
        """Of store and lists."""
        return self.store_bytes + self.lists_bytes
