"""What the index asks of a library of inverted lists, whichever device it uses.

Lists hold vectors by slot, the number of a row in the columns. They know nothing of items,
filters or tombstones: a mask of slots says what may be found.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

AllowedRows: TypeAlias = object
"""What a library made of a mask; only the one that made it can read it."""


class Nearest(NamedTuple):
    """What lists found for each query, in any order.

    `scores`: float32 (b, k), inner products, higher is better, -inf where nothing was found.
    `slots`: int64 (b, k), -1 where nothing was found. Both on the lists' device.
    """

    scores: torch.Tensor
    slots: torch.Tensor


class InvertedLists(Protocol):
    """Rows of unit vectors by slot, in lists about trained centres; a search reads the nearest.

    Synchronous. Searches may run at once from several threads; `extend` excludes them as
    briefly as it can. One thread at a time extends.
    """

    @property
    def n_lists(self) -> int:
        """How many lists there are."""
        ...

    def list_sizes(self) -> NDArray[np.int64]:
        """How many rows each list has: int64 (n_lists,)."""
        ...

    def extend(self, vectors: torch.Tensor, slots: torch.Tensor) -> None:
        """Adds rows. Nothing is ever removed: a tombstone is a bit of the mask.

        Args:
            vectors: float16 (n, dimension) on the lists' device; not kept.
            slots: int64 (n,), ascending, each higher than any before.

        Raises:
            ValueError: A slot is not new; nothing was added.
            OutOfMemoryError: They did not fit.
        """
        ...

    def allow(self, mask: NDArray[np.bool_]) -> AllowedRows:
        """Makes of a mask, bool (slots,), what `search` takes; slots beyond it do not pass."""
        ...

    def search(
        self, queries: torch.Tensor, k: int, n_probes: int, allowed: AllowedRows | None
    ) -> Nearest:
        """Finds the `k` nearest rows in the `n_probes` nearest lists of each query.

        Args:
            queries: float32 (b, dimension) on the lists' device.
            k: 1 to 256.
            n_probes: 1 to `n_lists`.
            allowed: The rows that may be found; None for every row.
        """
        ...

    def save(self, path: Path) -> None:
        """Writes a file that `ListsLibrary.load` of the same library and version reads."""
        ...

    def close(self) -> None:
        """Frees the memory. Nothing is called afterwards."""
        ...


class ListsLibrary(Protocol):
    """What makes inverted lists: FAISS on a CPU, cuVS on a GPU."""

    @property
    def name(self) -> str:
        """The library and its version, such as "faiss 1.15.1"."""
        ...

    def train(self, sample: torch.Tensor, n_lists: int) -> InvertedLists:
        """Makes empty lists about the centres of a sample.

        Args:
            sample: float16 (n, dimension), n at least `n_lists`, in random order.
            n_lists: How many.

        Raises:
            ValueError: The sample is smaller than `n_lists`.
            OutOfMemoryError: They did not fit.
        """
        ...

    def load(self, path: Path) -> InvertedLists:
        """Reads lists that were saved.

        Raises:
            ListsError: The file is not what `save` writes.
            OutOfMemoryError: They did not fit.
        """
        ...
