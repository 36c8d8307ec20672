"""Inverted lists on the CPU, by FAISS.

Vectors are stored as float16 and scored in float32. FAISS releases the GIL during every long
call and supports concurrent searches, but no search may run while rows are added.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from serving.adapters.vector_index.arrays import Array
from serving.adapters.vector_index.lists.errors import ListsError, needs_memory_for
from serving.adapters.vector_index.lists.inverted_lists import ListFilter, ListHits
from serving.adapters.vector_index.lists.shared_lock import SharedLock

ADDED_AT_ONCE = 256
"""Rows added while searches wait; this takes well under a millisecond."""

IMPOSSIBLE_SCORE = 1e30
"""Far beyond any score of unit vectors; FAISS fills missing results with -3.4e38."""


class FaissLists:
    """`InvertedLists` in an `IndexIVFScalarQuantizer`.

    Args:
        index: The trained FAISS index.
        end: One more than the highest slot in it.
        threads: Used by `extend`. A search uses one; concurrency comes from its callers.
    """

    def __init__(self, index: Any, end: int, threads: int) -> None:
        self._index = index
        self._end = end
        self._threads = threads
        self._lock = SharedLock()

    @property
    def n_lists(self) -> int:
        return int(self._index.nlist)

    def list_sizes(self) -> NDArray[np.int64]:
        with self._lock.shared():
            size_of = self._index.invlists.list_size
            return np.fromiter(map(size_of, range(self.n_lists)), np.int64, self.n_lists)

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

    def search(self, queries: Array, k: int, n_probes: int, allowed: ListFilter | None) -> ListHits:
        _use_threads(1)
        parameters = faiss.SearchParametersIVF(nprobe=n_probes, sel=allowed)
        with self._lock.shared():
            scores, slots = self._index.search(np.asarray(queries), k, params=parameters)
            end = self._end
        found = (slots >= 0) & (slots < end) & (np.abs(scores) < IMPOSSIBLE_SCORE)
        return ListHits(
            np.where(found, scores, np.float32(-np.inf)),
            np.where(found, slots, -1),
        )

    def keep_only(self, alive: NDArray[np.bool_]) -> bool:
        """Removes the rows that are not alive; searches wait, for about 10 ns a row."""
        kept = faiss.IDSelectorBitmap(np.packbits(alive, bitorder="little"))
        with self._lock.alone():
            _use_threads(self._threads)
            if self._index.ntotal > np.count_nonzero(alive[: self._end]):
                self._index.remove_ids(faiss.IDSelectorNot(kept))
        return True

    def save(self, path: Path) -> None:
        with self._lock.shared():
            faiss.write_index(self._index, str(path))

    def close(self) -> None:
        self._index = None


class FaissLibrary:
    """A `ListsLibrary` of `FaissLists`.

    Args:
        threads: For training and for adding rows, which run beside searches.
    """

    def __init__(self, *, threads: int = 1) -> None:
        self._threads = threads

    @property
    def name(self) -> str:
        return f"faiss {faiss.__version__}"

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
        return FaissLists(index, 0, self._threads)

    def load(self, path: Path) -> FaissLists:
        with needs_memory_for(f"the lists in {path.name}"):
            try:
                index = faiss.read_index(str(path))
            except RuntimeError as error:
                raise ListsError(f"{path.name} cannot be read as lists") from error
        if not _is_ours(index):
            raise ListsError(f"{path.name} holds another kind of index")
        return FaissLists(index, _end_of(index.invlists), self._threads)


def _is_ours(index: Any) -> bool:
    return (
        isinstance(index, faiss.IndexIVFScalarQuantizer)
        and index.sq.qtype == faiss.ScalarQuantizer.QT_fp16
        and index.metric_type == faiss.METRIC_INNER_PRODUCT
        and index.is_trained
    )


def _end_of(lists: Any) -> int:
    """One more than the highest slot in the lists."""
    end = 0
    for number in range(lists.nlist):
        if size := lists.list_size(number):
            slots = faiss.rev_swig_ptr(lists.get_ids(number), size)
            end = max(end, int(slots.max()) + 1)
    return end


def _use_threads(count: int) -> None:
    # OpenMP keeps this setting per calling thread, so searches do not inherit that of a build.
    faiss.omp_set_num_threads(count)
