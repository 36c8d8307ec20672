"""Inverted lists on the CPU, by FAISS.

Vectors are stored as float16 and scored in float32. FAISS releases the GIL during every long
call and supports concurrent searches, but no search may run while rows are added.
"""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from serving.adapters.vector_index.arrays import Array
from serving.adapters.vector_index.lists.inverted_lists import ListFilter, needs_memory_for
from serving.adapters.vector_index.lists.shared_lock import SharedLock

ADDED_AT_ONCE = 256
"""Rows added while searches wait; this takes well under a millisecond."""

IMPOSSIBLE_SCORE = 1e30
"""Far beyond any score of unit vectors; FAISS fills missing results with -3.4e38."""


class FaissLists:
    """`InvertedLists` in an `IndexIVFScalarQuantizer`.

    Args:
        index: The trained FAISS index, without rows.
        threads: Used by `extend`. A search uses one; concurrency comes from its callers.
    """

    def __init__(self, index: Any, threads: int) -> None:
        self._index = index
        self._end = 0
        self._threads = threads
        self._lock = SharedLock()

    @property
    def n_lists(self) -> int:
        return int(self._index.nlist)

    def extend(self, vectors: Array, slots: Array) -> None:
        if not len(slots):
            return
        numbers = np.asarray(slots)
        if numbers[0] < self._end or not (np.diff(numbers) > 0).all():
            raise ValueError(f"slots must ascend from {self._end}: rows are stored once")
        with needs_memory_for(f"{len(slots):,} more rows in lists"):
            _use_threads(self._threads)
            rows = np.asarray(vectors, np.float32, order="C")
            # Assigning rows to centroids takes longest and blocks no search.
            _, nearest = self._index.quantizer.search(rows, 1)
            for start in range(0, len(rows), ADDED_AT_ONCE):
                part = slice(start, start + ADDED_AT_ONCE)
                with self._lock.alone():
                    self._add(rows[part], numbers[part], nearest[part, 0])
                    self._end = int(numbers[part][-1]) + 1

    def _add(
        self,
        rows: NDArray[np.float32],
        slots: NDArray[np.int64],
        nearest: NDArray[np.int64],
    ) -> None:
        arrays = [np.ascontiguousarray(array) for array in (rows, slots, nearest)]
        self._index.add_core(len(rows), *map(faiss.swig_ptr, arrays))

    def allow(self, mask: NDArray[np.bool_]) -> ListFilter:
        selector: object = faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
        return selector

    def search(self, queries: Array, k: int, n_probes: int, allowed: ListFilter | None) -> Array:
        _use_threads(1)
        parameters = faiss.SearchParametersIVF(nprobe=n_probes, sel=allowed)
        with self._lock.shared():
            scores, slots = self._index.search(np.asarray(queries), k, params=parameters)
            end = self._end
        found = (slots >= 0) & (slots < end) & (np.abs(scores) < IMPOSSIBLE_SCORE)
        return np.where(found, slots, -1)


class FaissLibrary:
    """A `ListsLibrary` of `FaissLists`.

    Args:
        threads: For training and for adding rows, which run beside searches.
    """

    def __init__(self, *, threads: int = 1) -> None:
        self._threads = threads

    def train(self, sample: Array, n_lists: int) -> FaissLists:
        count, dimension = sample.shape
        if count < n_lists:
            raise ValueError(f"{n_lists} lists need as many rows to train on, got {count}")
        with needs_memory_for(f"training {n_lists:,} lists on {count:,} rows"):
            _use_threads(self._threads)
            index = faiss.IndexIVFScalarQuantizer(
                faiss.IndexFlatIP(dimension),
                dimension,
                n_lists,
                faiss.ScalarQuantizer.QT_fp16,
                faiss.METRIC_INNER_PRODUCT,
                False,  # store the rows themselves, not their residuals
            )
            # The caller decides how many rows a list needs; FAISS would warn on stderr.
            index.cp.min_points_per_centroid = 1
            index.train(np.asarray(sample, np.float32, order="C"))
        return FaissLists(index, self._threads)


def _use_threads(count: int) -> None:
    # OpenMP keeps this setting per calling thread, so searches do not inherit that of a build.
    faiss.omp_set_num_threads(count)
