"""A rule that puts few rows into lists, and lists that record how they are used."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from serving.adapters.vector_index import IndexRule, TieredIndex
from serving.adapters.vector_index.arrays import Array
from serving.adapters.vector_index.lists import CpuLibrary
from serving.adapters.vector_index.lists.inverted_lists import (
    InvertedLists,
    ListFilter,
    ListsLibrary,
)
from serving.domain.items.records import ItemId, TenantName
from serving.ports.index_engine import IndexRow

LISTS_AT_ONCE = IndexRule(max_scanned_rows=4, min_lists=2, min_rows_per_list=2, min_tail=3)
"""Lists from five rows on."""


class WatchedLists:
    """`InvertedLists` that record how they are used.

    Attributes:
        searches: `k`, `n_probes` and whether there was a mask, of each search.
        slots: The slots that were added.
    """

    def __init__(self, lists: InvertedLists, library: WatchedLibrary) -> None:
        self._lists = lists
        self._library = library
        self.searches: list[tuple[int, int, bool]] = []
        self.slots: list[int] = []

    @property
    def n_lists(self) -> int:
        return self._lists.n_lists

    def extend(self, vectors: torch.Tensor, slots: torch.Tensor) -> None:
        self._library.on_extend()
        self._lists.extend(vectors, slots)
        self.slots += slots.tolist()

    def allow(self, mask: NDArray[np.bool_]) -> ListFilter:
        return self._lists.allow(mask)

    def search(self, queries: Array, k: int, n_probes: int, allowed: ListFilter | None) -> Array:
        self.searches.append((k, n_probes, allowed is not None))
        self._library.on_search()
        probes = min(n_probes, self._library.max_probes or n_probes)
        allowed = None if self._library.ignores_masks else allowed
        slots = self._lists.search(queries, k, probes, allowed)
        # FAISS returns arrays, whatever it is given.
        return torch.as_tensor(slots) if isinstance(queries, torch.Tensor) else slots


class WatchedLibrary:
    """A `ListsLibrary` that records its lists and calls hooks.

    Args:
        max_probes: How many lists a search reads at most; by default as many as the rule says,
            which are all of so few.

    Attributes:
        made: The trained lists, which this keeps in memory.
        holds_searches: Whether it says that no search runs while rows are added.
        ignores_masks: Whether searches return rows that their mask excludes.
        on_train: Called before lists are trained; may raise.
        on_extend: Called before rows are added; may raise.
        on_search: Called before a search.
    """

    def __init__(
        self, *, max_probes: int | None = None, library: ListsLibrary | None = None
    ) -> None:
        self._library = library or CpuLibrary()
        self.max_probes = max_probes
        self.made: list[WatchedLists] = []
        self.holds_searches = False
        self.ignores_masks = False
        self.on_train: Callable[[], None] = lambda: None
        self.on_extend: Callable[[], None] = lambda: None
        self.on_search: Callable[[], None] = lambda: None

    def train(self, sample: torch.Tensor, n_lists: int) -> InvertedLists:
        self.on_train()
        lists = WatchedLists(self._library.train(sample, n_lists), self)
        self.made.append(lists)
        return lists

    @property
    def search_count(self) -> int:
        """The number of searches over all lists."""
        return sum(len(lists.searches) for lists in self.made)


class MaintainedIndex(TieredIndex):
    """Is maintained after every change."""

    def apply(self, rows: Sequence[IndexRow], removed: Sequence[tuple[TenantName, ItemId]]) -> None:
        super().apply(rows, removed)
        self.maintain()
