"""Inverted lists on the CPU, by FAISS; the only file that imports it.

Vectors are kept as float16 and scored in float32. FAISS releases the GIL in every call that
takes long, may search from many threads at once, and needs those kept out while it adds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from serving.adapters.vector_index.errors import ListsError, OutOfMemoryError
from serving.adapters.vector_index.inverted_lists import AllowedRows, Nearest
from serving.adapters.vector_index.shared_lock import SharedLock

ADDED_AT_ONCE = 256
"""So many rows are added while searches wait; it takes well under a millisecond."""

IMPOSSIBLE_SCORE = 1e30
"""Unit vectors have none near it; FAISS fills up what it did not find with -3.4e38."""


class FaissLists:
    """`InvertedLists` in an `IndexIVFScalarQuantizer`.

    Args:
        index: It, trained.
        end: One more than the highest slot in it.
        threads: For `extend`. A search has one, and there are as many searches as callers.
    """

    def __init__(self, index: Any, end: int, threads: int) -> None:
        self._index = index
        self._end = end
        self._threads = threads
        self._lock = SharedLock()

    @property
    def n_lists(self) -> int:
        """How many lists there are."""
        return int(self._index.nlist)

    def list_sizes(self) -> NDArray[np.int64]:
        """How many rows each list has: int64 (n_lists,)."""
        with self._lock.shared():
            size_of = self._index.invlists.list_size
            return np.fromiter(map(size_of, range(self.n_lists)), np.int64, self.n_lists)

    def extend(self, vectors: torch.Tensor, slots: torch.Tensor) -> None:
        """Adds rows: float16 (n, dimension), and their slots: int64 (n,), ascending and new.

        Raises:
            ValueError: A slot is not new; nothing was added.
            OutOfMemoryError: They did not fit.
        """
        if not len(slots):
            return
        numbers = slots.numpy()
        if numbers[0] < self._end or not (np.diff(numbers) > 0).all():
            raise ValueError(f"slots must ascend from {self._end}: rows are kept once")
        with _in_memory(f"{len(slots):,} more rows in lists"):
            _use_threads(self._threads)
            rows = vectors.float().numpy()
            # The longest part, finding the nearest centre of each row, keeps no search waiting.
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

    def allow(self, mask: NDArray[np.bool_]) -> AllowedRows:
        """Makes of a mask, bool (slots,), what `search` takes; slots beyond it do not pass."""
        selector: object = faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
        return selector

    def search(
        self, queries: torch.Tensor, k: int, n_probes: int, allowed: AllowedRows | None
    ) -> Nearest:
        """Finds the `k` nearest rows in the `n_probes` nearest lists of each query.

        Args:
            queries: float32 (b, dimension).
            k: At least 1.
            n_probes: 1 to `n_lists`.
            allowed: The rows that may be found; None for every row.
        """
        _use_threads(1)
        parameters = faiss.SearchParametersIVF(nprobe=n_probes, sel=allowed)
        with self._lock.shared():
            scores, slots = self._index.search(queries.numpy(), k, params=parameters)
            end = self._end
        found = (slots >= 0) & (slots < end) & (np.abs(scores) < IMPOSSIBLE_SCORE)
        return Nearest(
            torch.from_numpy(np.where(found, scores, np.float32(-np.inf))),
            torch.from_numpy(np.where(found, slots, -1)),
        )

    def save(self, path: Path) -> None:
        """Writes a file that `FaissLibrary.load` reads."""
        with self._lock.shared():
            faiss.write_index(self._index, str(path))

    def close(self) -> None:
        """Frees the memory. Nothing is called afterwards."""
        self._index = None


class FaissLibrary:
    """What makes `FaissLists`.

    Args:
        threads: For training and for adding rows, which run beside the searches.
    """

    def __init__(self, *, threads: int = 1) -> None:
        self._threads = threads

    @property
    def name(self) -> str:
        """The library and its version."""
        return f"faiss {faiss.__version__}"

    def train(self, sample: torch.Tensor, n_lists: int) -> FaissLists:
        """Makes empty lists about the centres of a sample: float16 (n, dimension).

        Raises:
            ValueError: The sample is smaller than `n_lists`.
            OutOfMemoryError: They did not fit.
        """
        count, dimension = sample.shape
        if count < n_lists:
            raise ValueError(f"{n_lists} lists need as many rows to train on, got {count}")
        with _in_memory(f"training {n_lists:,} lists on {count:,} rows"):
            _use_threads(self._threads)
            index = faiss.IndexIVFScalarQuantizer(
                faiss.IndexFlatIP(dimension),
                dimension,
                n_lists,
                faiss.ScalarQuantizer.QT_fp16,
                faiss.METRIC_INNER_PRODUCT,
                False,  # rows themselves, not what they differ by from their centre
            )
            # How many rows a list needs is the caller's rule; FAISS would warn on stderr.
            index.cp.min_points_per_centroid = 1
            index.train(sample.float().numpy())
        return FaissLists(index, 0, self._threads)

    def load(self, path: Path) -> FaissLists:
        """Reads lists that were saved.

        Raises:
            ListsError: The file is not what `FaissLists.save` writes.
            OutOfMemoryError: They did not fit.
        """
        with _in_memory(f"the lists in {path.name}"):
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
    # OpenMP keeps it for each calling thread apart, so that no search gets what a build has.
    faiss.omp_set_num_threads(count)


@contextmanager
def _in_memory(what: str) -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise OutOfMemoryError(what) from error
