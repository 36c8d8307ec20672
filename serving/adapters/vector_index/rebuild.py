"""Rebuilding a partition, into new lists or into none, while searches and writes continue."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from serving.adapters.vector_index import arrays
from serving.adapters.vector_index.lists.inverted_lists import (
    ListsLibrary,
    TrainedLists,
    needs_memory_for,
)
from serving.adapters.vector_index.rows.columns import Columns, ItemNumbers
from serving.adapters.vector_index.rows.partition import FIRST_CAPACITY, Partition
from serving.adapters.vector_index.rows.view import PartitionView
from serving.adapters.vector_index.rule import training_rows

FILLED_AT_ONCE = 16_384

SPARE = 8
"""The new partition has room for one more row in eight, for writes during the rebuild."""

PAUSE_S = 0.0005
"""Without a sleep, a Python loop holds the GIL for up to 5 ms at a time."""

REST_FACTOR = 150
"""Ratio of the time in which searches run freely to the time for which a library held them while it
added rows: fewer than one search in a hundred waits, so that p99 stays."""


class StoppedError(Exception):
    """The index was closed during a rebuild."""


@dataclass(slots=True)
class RebuildProgress:
    """The progress of a rebuild; other threads read it, and may set `stopped`."""

    phase: str = "copying"
    share: float = 0.0
    stopped: bool = False

    def pause(self, held_s: float = 0.0) -> None:
        """Yields the GIL, at least `REST_FACTOR` times as long as no search could run before.

        Raises StoppedError if the rebuild was stopped.
        """
        self._check()
        time.sleep(max(PAUSE_S, REST_FACTOR * held_s))

    def enter(self, phase: str) -> None:
        """Begins the next phase; raises StoppedError if the rebuild was stopped."""
        self._check()
        self.phase, self.share = phase, 0.0

    def _check(self) -> None:
        if self.stopped:
            raise StoppedError

    def __str__(self) -> str:
        return f"{self.phase} {int(100 * self.share)} %"


def rebuilt(
    library: ListsLibrary,
    view: PartitionView,
    numbers: ItemNumbers,
    n_lists: int,
    progress: RebuildProgress,
) -> Partition:
    """Copies the live rows and puts them into lists, or into none if `n_lists` is 0.

    Raises:
        OutOfMemoryError: The copy or the lists do not fit.
        ListsError: The library failed.
        StoppedError: `progress` was stopped.
    """
    kept = np.flatnonzero(view.alive)
    room = max(FIRST_CAPACITY, len(kept) + len(kept) // SPARE)
    with needs_memory_for(f"another copy of {len(kept):,} rows"):
        columns = view.columns.copied(kept, view.count, room, progress.pause)
    trained = _train(library, columns, n_lists, progress) if n_lists else None
    return Partition(columns, numbers, trained, progress.pause)


def _train(
    library: ListsLibrary, columns: Columns, n_lists: int, progress: RebuildProgress
) -> TrainedLists:
    count = len(columns)
    vectors = columns.vectors[:count]
    # Seeded, so that equal rows give equal lists.
    sample = np.random.default_rng(0).permutation(count)[: training_rows(n_lists, count)]
    progress.enter("training")
    lists = library.train(vectors[arrays.on_device_of(sample, vectors)], n_lists)
    progress.enter("filling")
    for start in range(0, count, FILLED_AT_ONCE):
        end, since = min(start + FILLED_AT_ONCE, count), time.perf_counter()
        lists.extend(vectors[start:end], arrays.on_device_of(np.arange(start, end), vectors))
        progress.share = end / count
        progress.pause(time.perf_counter() - since if library.holds_searches else 0.0)
    return TrainedLists(lists, count)
