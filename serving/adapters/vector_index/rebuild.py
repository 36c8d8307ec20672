"""Rebuilding a partition into new lists while searches and writes continue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from serving.adapters.vector_index import arrays
from serving.adapters.vector_index.arrays import Array
from serving.adapters.vector_index.lists.errors import needs_memory_for
from serving.adapters.vector_index.lists.inverted_lists import InvertedLists, ListsLibrary
from serving.adapters.vector_index.lists.trained import TrainedLists, list_skew
from serving.adapters.vector_index.rows.columns import Columns, ItemNumbers, Slots
from serving.adapters.vector_index.rows.partition import FIRST_CAPACITY, Partition, RecordedQuery
from serving.adapters.vector_index.rows.view import PartitionView
from serving.adapters.vector_index.tuning.calibration import calibrate, ground_truth, hold_out
from serving.adapters.vector_index.tuning.policy import IndexPolicy, training_rows

HELD_OUT = 128

FILLED_AT_ONCE = 16_384

SPARE = 8
"""The new partition has room for one more row in eight, for writes during the rebuild."""

PAUSE_S = 0.0005
"""Without a sleep, a Python loop holds the GIL for up to 5 ms at a time."""


class StoppedError(Exception):
    """The index was closed during a rebuild."""


@dataclass(slots=True)
class RebuildProgress:
    """The progress of a rebuild; other threads read it, and may set `stopped`."""

    phase: str = "copying"
    share: float = 0.0
    stopped: bool = False

    def pause(self) -> None:
        """Yields the GIL.

        Raises:
            StoppedError: The rebuild was stopped.
        """
        self._check()
        time.sleep(PAUSE_S)

    def enter(self, phase: str) -> None:
        """Begins the next phase.

        Raises:
            StoppedError: The rebuild was stopped.
        """
        self._check()
        self.phase, self.share = phase, 0.0

    def _check(self) -> None:
        if self.stopped:
            raise StoppedError

    def __str__(self) -> str:
        return f"{self.phase} {int(100 * self.share)} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """The settings of a rebuild.

    Args:
        library: Trains the lists.
        policy: The number of lists and the recall target.
        seed: Of the order of rows; equal rows give equal lists.
        clock: Seconds, of the index.
    """

    library: ListsLibrary
    policy: IndexPolicy
    seed: int
    clock: Callable[[], float]

    def run(
        self,
        view: PartitionView,
        numbers: ItemNumbers,
        queries: Iterable[RecordedQuery],
        n_lists: int,
        progress: RebuildProgress,
    ) -> Partition:
        """Copies the live rows and puts them into lists, or into none if `n_lists` is 0.

        Raises:
            OutOfMemoryError: The copy or the lists do not fit.
            ListsError: The library failed; the new lists are closed.
            StoppedError: `progress` was stopped.
        """
        kept = np.flatnonzero(view.alive)
        room = max(FIRST_CAPACITY, len(kept) + len(kept) // SPARE)
        with needs_memory_for(f"another copy of {len(kept):,} rows"):
            columns = view.columns.copied(kept, view.count, room, progress.pause)
        trained = self._train(columns, queries, n_lists, progress) if n_lists else None
        return Partition(columns, numbers, trained, progress.pause)

    def _train(
        self,
        columns: Columns,
        queries: Iterable[RecordedQuery],
        n_lists: int,
        progress: RebuildProgress,
    ) -> TrainedLists:
        count = len(columns)
        vectors = columns.vectors[:count]
        held_out, others = hold_out(count, HELD_OUT, np.random.default_rng(self.seed))
        sample = others[: training_rows(n_lists, count)]
        progress.enter("training")
        lists = self.library.train(
            vectors[arrays.beside(sample, vectors)], min(n_lists, len(sample))
        )
        try:
            progress.enter("filling")
            for start in range(0, count, FILLED_AT_ONCE):
                end = min(start + FILLED_AT_ONCE, count)
                lists.extend(vectors[start:end], arrays.numbered(start, end, vectors))
                progress.share = end / count
                progress.pause()
            return self._calibrated(lists, vectors, held_out, queries, progress)
        except BaseException:
            lists.close()
            raise

    def _calibrated(
        self,
        lists: InvertedLists,
        vectors: Array,
        held_out: Slots,
        queries: Iterable[RecordedQuery],
        progress: RebuildProgress,
    ) -> TrainedLists:
        """Calibrates with held-out rows, hidden from the results, and with recorded queries."""
        progress.enter("calibrating")
        visible = np.ones(len(vectors), np.bool_)
        visible[held_out] = False
        as_queries = arrays.as_float32(vectors[arrays.beside(held_out, vectors)])
        truths = [ground_truth(vectors, as_queries, visible, progress.pause)]
        recorded = [arrays.query_beside(each.vector, vectors) for each in queries]
        if recorded:
            everything = np.ones(len(vectors), np.bool_)
            truths.append(
                ground_truth(vectors, arrays.stacked(recorded), everything, progress.pause)
            )
        calibration = calibrate(
            lists,
            vectors,
            [truth for truth in truths if truth is not None],
            self.policy.recall_target,
            progress.pause,
        )
        skew = list_skew(lists.list_sizes().tolist())
        return TrainedLists(lists, calibration, len(vectors), skew, self.clock())
