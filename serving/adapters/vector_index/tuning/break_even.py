"""Measures from how many rows on lists are faster than a scan on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from serving.adapters.vector_index import arrays
from serving.adapters.vector_index.arrays import Array
from serving.adapters.vector_index.lists.errors import needs_memory_for
from serving.adapters.vector_index.lists.faiss_scan import scan
from serving.adapters.vector_index.lists.inverted_lists import ListsLibrary
from serving.adapters.vector_index.rows.exact_scan import LEAST_HEAD
from serving.adapters.vector_index.tuning.costs import Line, exact_max_rows

TIMED_ROWS = {"cpu": (4_096, 16_384), "cuda": (65_536, 262_144)}
"""By device type: enough rows for the scan to dominate the fixed cost of a search."""

TRAINED_PER_LIST = 16
"""Centroids of random vectors do not improve with more training rows."""

ROWS_PER_LIST = 64

PROBED = 16
"""One list in 16 is probed, as 100,000 rows need for a recall of .98."""

MADE_AT_ONCE = 16_384

REPETITIONS = 9

SEED = 0


def measured_exact_max_rows(
    library: ListsLibrary,
    dimension: int,
    *,
    device: str = "cpu",
    timed_rows: Sequence[int] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> int:
    """Times scans and list searches of one query each; see `exact_max_rows`.

    Random vectors suffice: the cost depends on how many rows are read, not on which are found.
    Takes about a second.

    Raises:
        OutOfMemoryError: The rows do not fit.
    """
    timed_rows = timed_rows or TIMED_ROWS[device.partition(":")[0]]
    with needs_memory_for(f"{max(timed_rows):,} rows"):
        vectors = _random_rows(max(timed_rows), dimension, device)
        query = arrays.as_float32(vectors[:1])
        exact = [(count, _scan_s(vectors[:count], query, clock)) for count in timed_rows]
        lists = [(count, _lists_s(library, vectors[:count], query, clock)) for count in timed_rows]
    return exact_max_rows(Line.through(exact), Line.through(lists))


def _random_rows(count: int, dimension: int, device: str) -> Array:
    """Random unit vectors: float16 (count, dimension)."""
    generator = np.random.default_rng(SEED)
    vectors = arrays.empty(count, dimension, device)
    for start in range(0, count, MADE_AT_ONCE):
        shape = min(MADE_AT_ONCE, count - start), dimension
        rows = generator.standard_normal(shape, np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        vectors[start : start + len(rows)] = arrays.to_device(rows, device)
    return vectors


def _scan_s(vectors: Array, query: Array, clock: Callable[[], float]) -> float:
    head = min(LEAST_HEAD, len(vectors))

    def scan_all() -> None:
        if arrays.is_on_host(vectors):
            scan(vectors, query[0], head, None)
        else:
            (vectors @ query[0].half()).float().topk(head).indices.cpu()

    return _least_s(scan_all, clock)


def _lists_s(
    library: ListsLibrary,
    vectors: Array,
    query: Array,
    clock: Callable[[], float],
) -> float:
    n_lists = max(1, len(vectors) // ROWS_PER_LIST)
    lists = library.train(vectors[: TRAINED_PER_LIST * n_lists], n_lists)
    try:
        lists.extend(vectors, arrays.numbered(0, len(vectors), vectors))
        n_probes = max(1, n_lists // PROBED)
        return _least_s(
            lambda: arrays.to_host(lists.search(query, LEAST_HEAD, n_probes, None).slots), clock
        )
    finally:
        lists.close()


def _least_s(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """The minimum of several times, since other load can only add."""
    times = []
    for _ in range(REPETITIONS):
        began = clock()
        work()
        times.append(clock() - began)
    return min(times)
