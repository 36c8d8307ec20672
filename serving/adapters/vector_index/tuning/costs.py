"""The costs of an index: the number of rows from which lists are faster, and memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_EXACT_ROWS, MOST_EXACT_ROWS = 20_000, 10_000_000
"""The bounds of the measured threshold. Below the lower one, a scan takes a millisecond."""

WORTH_IT = 2.0
"""Lists may miss one row in fifty, so they must be at least twice as fast as a scan."""

LISTS_OVERHEAD = 1.2
"""The memory of lists relative to that of their rows, since each list has spare capacity."""

SLOT_BYTES = 8
COLUMN_BYTES = 400
"""Per row, approximately, beside its vector: times, postings, its id and those of its evidence."""


@dataclass(frozen=True, slots=True)
class Line:
    """A linear cost: `at_none` seconds plus `per_row` seconds for each row."""

    at_none: float
    per_row: float

    @classmethod
    def through(cls, points: Sequence[tuple[int, float]]) -> Line:
        """Fits (rows, seconds) by least squares; neither coefficient is negative.

        Raises:
            ValueError: There are fewer than two distinct row counts.
        """
        count = len(points)
        mean_rows = sum(rows for rows, _ in points) / count if count else 0.0
        mean_time = sum(time for _, time in points) / count if count else 0.0
        spread = sum((rows - mean_rows) ** 2 for rows, _ in points)
        if not spread:
            raise ValueError("a line needs times of two distinct row counts")
        rise = sum((rows - mean_rows) * (time - mean_time) for rows, time in points) / spread
        per_row = max(rise, 0.0)
        return cls(max(mean_time - per_row * mean_rows, 0.0), per_row)


def exact_max_rows(exact: Line, lists: Line) -> int:
    """The number of rows up to which a scan is preferred, on the device that was timed."""
    saved_per_row = exact.per_row - WORTH_IT * lists.per_row
    if saved_per_row <= 0:
        return MOST_EXACT_ROWS
    crossing = (WORTH_IT * lists.at_none - exact.at_none) / saved_per_row
    return max(LEAST_EXACT_ROWS, min(math.ceil(crossing), MOST_EXACT_ROWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """The memory in bytes of rows, in lists or not. `n_lists` is 0 without lists."""

    rows: int
    dimension: int
    n_lists: int = 0

    @property
    def vector_bytes(self) -> int:
        return self.rows * 2 * self.dimension

    @property
    def store_bytes(self) -> int:
        return self.vector_bytes + self.rows * COLUMN_BYTES

    @property
    def lists_bytes(self) -> int:
        if not self.n_lists:
            return 0
        rows = self.rows * (2 * self.dimension + SLOT_BYTES)
        return int(LISTS_OVERHEAD * rows) + self.n_lists * 4 * self.dimension

    @property
    def total_bytes(self) -> int:
        return self.store_bytes + self.lists_bytes
