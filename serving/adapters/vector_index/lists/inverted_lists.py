"""The interface of a library of inverted lists, on any device.

Lists hold vectors by slot, the row number in the partition's columns. They know nothing about
items, filters or tombstones: a mask of slots restricts a search. Another library of approximate
search fits too, if it takes `n_probes` as the effort of a search.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from serving.adapters.vector_index import arrays
from serving.adapters.vector_index.arrays import Array

ListFilter: TypeAlias = object
"""A mask converted for one library, which alone can read it."""


class ListsError(Exception):
    """A library of inverted lists failed."""


class OutOfMemoryError(ListsError):
    """Memory is short; the index keeps working, and a later attempt may succeed.

    `what` did not fit, such as "lists of 1,000,000 rows".
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"no memory for {self.what}"


@contextmanager
def needs_memory_for(what: str) -> Iterator[None]:
    """Raises `OutOfMemoryError` for `what` where Python, NumPy or torch runs out of memory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if arrays.is_out_of_memory(error):
            raise OutOfMemoryError(what) from error
        raise


class InvertedLists(Protocol):
    """Unit vectors by slot, each in the list of its nearest centroid.

    Synchronous. Several threads may search at once; `extend` blocks searches as briefly as it
    can. Only one thread at a time may extend. Memory is freed with the last reference.
    """

    @property
    def n_lists(self) -> int:
        """The number of lists."""

    def extend(self, vectors: Array, slots: Array) -> None:
        """Adds rows; a row is never removed, but excluded by the mask of a search.

        Args:
            vectors: float16 (n, dimension) on the lists' device; not kept.
            slots: int64 (n,), ascending, each higher than any added before.

        Raises:
            ValueError: A slot is not new; nothing was added.
            OutOfMemoryError: The rows do not fit.
        """

    def allow(self, mask: NDArray[np.bool_]) -> ListFilter:
        """Converts a mask, bool (slots,), for `search`; slots beyond its end are excluded."""

    def search(self, queries: Array, k: int, n_probes: int, allowed: ListFilter | None) -> Array:
        """Finds the `k` nearest rows in the `n_probes` nearest lists of each query.

        Args:
            queries: float32 (b, dimension) on the lists' device.
            k: 1 to 256.
            n_probes: 1 to `n_lists`.
            allowed: The rows that may be found; None for every row.

        Returns:
            int64 (b, k) on the lists' device, in any order: slots, and -1 where nothing was found.
        """


class ListsLibrary(Protocol):
    """Trains inverted lists on one device."""

    holds_searches: bool
    """Whether no search runs in this process while rows are added."""

    def train(self, sample: Array, n_lists: int) -> InvertedLists:
        """Trains centroids and returns empty lists.

        Args:
            sample: float16 (n, dimension), n at least `n_lists`, in random order; not kept.
            n_lists: The number of centroids.

        Raises:
            ValueError: The sample is smaller than `n_lists`.
            OutOfMemoryError: The lists do not fit.
        """


@dataclass(frozen=True, eq=False)
class TrainedLists:
    """Lists that partition views refer to, and the number of rows that they were trained for."""

    lists: InvertedLists
    rows: int
