"""The interface of an inverted-lists library, on any device.

Lists hold vectors by slot, the row number in the partition's columns. They know nothing about
items, filters or tombstones: a mask of slots restricts a search.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from serving.adapters.vector_index.arrays import Array

ListFilter: TypeAlias = object
"""A mask converted for one library, which alone can read it."""


class ListHits(NamedTuple):
    """The rows found for each query, in any order.

    `scores`: float32 (b, k), inner products, higher is better, -inf where nothing was found.
    `slots`: int64 (b, k), -1 where nothing was found. Both on the lists' device.
    """

    scores: Array
    slots: Array


class InvertedLists(Protocol):
    """Unit vectors by slot, each in the list of its nearest centroid.

    Synchronous. Several threads may search at once; `extend` blocks searches as briefly as it
    can. Only one thread at a time may extend.
    """

    @property
    def n_lists(self) -> int:
        """The number of lists."""
        ...

    def list_sizes(self) -> NDArray[np.int64]:
        """The number of rows in each list: int64 (n_lists,)."""
        ...

    def extend(self, vectors: Array, slots: Array) -> None:
        """Adds rows. Dead rows are excluded by the mask of a search until `keep_only`.

        Args:
            vectors: float16 (n, dimension) on the lists' device; not kept.
            slots: int64 (n,), ascending, each higher than any added before.

        Raises:
            ValueError: A slot is not new; nothing was added.
            OutOfMemoryError: The rows do not fit.
        """
        ...

    def allow(self, mask: NDArray[np.bool_]) -> ListFilter:
        """Converts a mask, bool (slots,), for `search`; slots beyond its end are excluded."""
        ...

    def search(self, queries: Array, k: int, n_probes: int, allowed: ListFilter | None) -> ListHits:
        """Finds the `k` nearest rows in the `n_probes` nearest lists of each query.

        Args:
            queries: float32 (b, dimension) on the lists' device.
            k: 1 to 256.
            n_probes: 1 to `n_lists`.
            allowed: The rows that may be found; None for every row.
        """
        ...

    def keep_only(self, alive: NDArray[np.bool_]) -> bool:
        """Removes the rows that are not alive, if the library can.

        Args:
            alive: bool (slots,), true for rows that were added alone; those beyond its end are
                dead.

        Returns:
            Whether all rows that are left are alive.
        """
        ...

    def save(self, path: Path) -> None:
        """Writes a file that `ListsLibrary.load` of the same library and version reads."""
        ...

    def close(self) -> None:
        """Frees the memory. No method may be called afterwards."""
        ...


class ListsLibrary(Protocol):
    """Trains and loads inverted lists: FAISS on a CPU, cuVS on a GPU."""

    @property
    def name(self) -> str:
        """The library and its version, such as "faiss 1.15.1"."""
        ...

    def train(self, sample: Array, n_lists: int) -> InvertedLists:
        """Trains centroids and returns empty lists.

        Args:
            sample: float16 (n, dimension), n at least `n_lists`, in random order; not kept.
            n_lists: The number of centroids.

        Raises:
            ValueError: The sample is smaller than `n_lists`.
            OutOfMemoryError: The lists do not fit.
        """
        ...

    def load(self, path: Path) -> InvertedLists:
        """Reads lists that `save` wrote.

        Raises:
            ListsError: The file was not written by `save`.
            OutOfMemoryError: The lists do not fit.
        """
        ...
