"""Inverted lists and exact scans on the CPU, by FAISS.

Vectors are stored as float16 and scored in float32. FAISS releases the GIL during every long
call and supports concurrent searches, but no search may run while rows are added.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from serving.adapters.vector_index.arrays import Array
from serving.adapters.vector_index.lists.inverted_lists import ListFilter, needs_memory_for

ADDED_AT_ONCE = 256
"""Rows added while searches wait; this takes well under a millisecond."""

IMPOSSIBLE_SCORE = 1e30
"""Far beyond any score of unit vectors; FAISS fills missing results with -3.4e38."""


class SharedLock:
    """A readers-writer lock that prefers the writer.

    Readers that arrive while a writer waits are queued behind it, so a steady stream of searches
    cannot starve a change.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._sharing = 0
        self._alone = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Holds the lock together with other readers."""
        with self._condition:
            self._condition.wait_for(lambda: not self._alone)
            self._sharing += 1
        try:
            yield
        finally:
            with self._condition:
                self._sharing -= 1
                if not self._sharing:
                    self._condition.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the lock exclusively. Only one thread at a time may request this."""
        with self._condition:
            self._alone = True
            self._condition.wait_for(lambda: not self._sharing)
        try:
            yield
        finally:
            with self._condition:
                self._alone = False
                self._condition.notify_all()


class FaissLists:
    """`InvertedLists` in an `IndexIVFScalarQuantizer`, trained and without rows.

    `extend` uses `threads`. A search uses one; concurrency comes from its callers.
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
                added = [
                    np.ascontiguousarray(each[part]) for each in (rows, numbers, nearest[:, 0])
                ]
                with self._lock.alone():
                    self._index.add_core(len(added[0]), *map(faiss.swig_ptr, added))
                    self._end = int(numbers[part][-1]) + 1

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
    """A `ListsLibrary` of `FaissLists`."""

    holds_searches = False

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


def scan(
    vectors: NDArray[np.float16],
    query: NDArray[np.float32],
    count: int,
    passing: NDArray[np.bool_] | None,
) -> NDArray[np.int64]:
    """The `count` rows with the largest inner products, scored in float32.

    Twice as fast as a product in float16. One thread, 384 dimensions, 40 rows wanted: 10,000 rows
    0.18 ms, 100,000 rows 5.4 ms.

    Args:
        vectors: float16 (rows, dimension), C-contiguous; read where they are.
        query: float32 (dimension,), C-contiguous.
        count: At most the number of passing rows.
        passing: bool (rows,), the rows that may be found; None for every row.

    Returns:
        int64 (count,), unordered.
    """
    if not count:
        return np.empty(0, np.int64)
    selector = None
    if passing is not None:
        selector = faiss.IDSelectorBitmap(np.packbits(passing, bitorder="little"))
    quantizer = _quantizer(vectors.shape[1])
    # Rows are known by their position, as if they were pairs of a list and a place in it.
    scanner = quantizer.select_InvertedListScanner(faiss.METRIC_INNER_PRODUCT, None, True, selector)
    scanner.set_query(faiss.swig_ptr(query))
    scanner.set_list(0, 0)
    scores = np.full(count, -np.inf, np.float32)
    rows = np.full(count, -1, np.int64)
    codes = faiss.swig_ptr(vectors.view(np.uint8))
    scanner.scan_codes(
        len(vectors), codes, None, faiss.swig_ptr(scores), faiss.swig_ptr(rows), count
    )
    return rows[rows >= 0]


@cache
def _quantizer(dimension: int) -> faiss.ScalarQuantizer:
    return faiss.ScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_fp16)
