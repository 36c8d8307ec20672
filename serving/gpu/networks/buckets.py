"""The batch shapes that are recorded, and the one in which a batch runs.

A recorded shape costs memory, and a batch that does not fill its shape costs
padding. There are many small shapes, whose passes are bound by kernel launches, so that recording
saves most of the time. There are none above a number of tokens, where the device is busy long
enough for launches not to matter.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

QUESTION_ROWS = 8
"""Of questions that arrive together, unless callers are many."""

SHORT_LENGTHS = 64
"""Up to here lengths are multiples of 8; a question with its instruction has about 38 tokens."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A batch shape; `length` is in tokens per row, padding included."""

    rows: int
    length: int

    @property
    def tokens(self) -> int:
        """The tokens of the shape, padding included."""
        return self.rows * self.length


class BucketPlan:
    """The shapes to record: a grid of row counts and lengths, limited in tokens.

    A batch is run in the smallest shape that holds it, with at most 25 % more rows (50 % below 8)
    and 25 % more tokens per row (or the next multiple of 8). A single longest window has a shape
    only if `token_budget` allows it; 0 means no shapes. `window` is the most tokens of a row.
    """

    def __init__(self, *, token_budget: int, window: int) -> None:
        self.window = window
        self._token_budget = token_budget
        # 8, 16, 24 ... 64, then 80, 96, 112, 128, 160 ...; and 1, 2, 4, 6, 8, 10, 12, 14, 16 ...
        lengths, counts = _steps(range(8, SHORT_LENGTHS, 8), SHORT_LENGTHS), _steps((1, 2, 4, 6), 8)
        self._lengths = [*takewhile(lambda length: length < window, lengths), window]
        self._row_counts = [*takewhile(lambda rows: rows <= token_budget, counts)]

    @property
    def buckets(self) -> list[Bucket]:
        """All shapes, the largest first, so that later ones reuse its memory."""
        grid = (Bucket(rows, length) for length in self._lengths for rows in self._row_counts)
        within = (bucket for bucket in grid if bucket.tokens <= self._token_budget)
        return sorted(within, key=lambda bucket: (bucket.tokens, bucket.length), reverse=True)

    @property
    def of_questions(self) -> list[Bucket]:
        """The shapes of a few questions, which are recorded before the first one arrives."""
        return [
            bucket
            for bucket in self.buckets
            if bucket.rows <= QUESTION_ROWS and bucket.length <= SHORT_LENGTHS
        ]

    def choose(self, rows: int, length: int) -> Bucket | None:
        """The smallest shape that holds rows of up to `length` tokens; None if there is none."""
        of_rows = bisect_left(self._row_counts, rows)
        if of_rows == len(self._row_counts):
            return None
        of_length = bisect_left(self._lengths, length)
        bucket = Bucket(self._row_counts[of_rows], self._lengths[of_length])
        return bucket if bucket.tokens <= self._token_budget else None


def _steps(first: Iterable[int], octave: int) -> Iterator[int]:
    """The first, then four steps per doubling."""
    yield from first
    while True:
        yield from range(octave, 2 * octave, octave // 4)
        octave *= 2
