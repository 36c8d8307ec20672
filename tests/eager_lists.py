"""Lists where a real index would not bother, and lists that tell what happens to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from serving.adapters.vector_index import TieredIndex
from serving.adapters.vector_index.faiss_lists import FaissLibrary
from serving.adapters.vector_index.inverted_lists import (
    AllowedRows,
    InvertedLists,
    ListsLibrary,
    Nearest,
)
from serving.domain.index_policy import IndexPolicy
from serving.domain.records import ItemId, ItemKind, TenantName
from serving.ports import IndexRow, IndexTier, Neighbours, VectorLike, WantedNeighbours

LISTS_AT_ONCE = IndexPolicy(
    exact_max_rows=4,
    least_lists=2,
    least_rows_per_list=2,
    least_tail=3,
    least_few=0,
    few=0.0,
)
"""Lists from five rows on, and never too few rows for them."""


class WatchedLists:
    """`InvertedLists` that tell how they are used.

    Attributes:
        searches: `k`, `n_probes` and whether there was a mask, of each search of one query;
            calibrations have many.
        masks: How many rows each mask let pass.
        closed: Whether they were.
    """

    def __init__(self, lists: InvertedLists, library: WatchedLibrary) -> None:
        self._lists = lists
        self._library = library
        self.searches: list[tuple[int, int, bool]] = []
        self.masks: list[int] = []
        self.closed = False

    @property
    def n_lists(self) -> int:
        return self._lists.n_lists

    def list_sizes(self) -> NDArray[np.int64]:
        return self._lists.list_sizes()

    def extend(self, vectors: torch.Tensor, slots: torch.Tensor) -> None:
        self._library.on_extend()
        self._lists.extend(vectors, slots)

    def allow(self, mask: NDArray[np.bool_]) -> AllowedRows:
        self.masks.append(int(mask.sum()))
        return self._lists.allow(mask)

    def search(
        self, queries: torch.Tensor, k: int, n_probes: int, allowed: AllowedRows | None
    ) -> Nearest:
        assert not self.closed
        if len(queries) == 1:
            self.searches.append((k, n_probes, allowed is not None))
            self._library.on_search()
        assert not self.closed
        probes = self.n_lists if self._library.probe_all else n_probes
        allowed = None if self._library.ignores_masks else allowed
        return self._lists.search(queries, k, probes, allowed)

    def save(self, path: Path) -> None:
        self._lists.save(path)

    def close(self) -> None:
        assert not self.closed
        self.closed = True
        self._lists.close()


class WatchedLibrary:
    """A `ListsLibrary` that tells of its lists, and calls back.

    Args:
        probe_all: Whether a search reads all lists, whatever it was told.

    Attributes:
        made: The lists it made.
        ignores_masks: Whether searches find what they must not.
        on_train: Called before lists are trained; may raise.
        on_extend: Called before rows are added; may raise.
        on_search: Called before a search of one query.
    """

    def __init__(self, *, probe_all: bool = False, library: ListsLibrary | None = None) -> None:
        self._library = library or FaissLibrary()
        self.probe_all = probe_all
        self.made: list[WatchedLists] = []
        self.ignores_masks = False
        self.on_train: Callable[[], None] = lambda: None
        self.on_extend: Callable[[], None] = lambda: None
        self.on_search: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        return self._library.name

    def train(self, sample: torch.Tensor, n_lists: int) -> InvertedLists:
        self.on_train()
        lists = WatchedLists(self._library.train(sample, n_lists), self)
        self.made.append(lists)
        return lists

    def load(self, path: Path) -> InvertedLists:
        return WatchedLists(self._library.load(path), self)

    @property
    def search_count(self) -> int:
        """How many searches there were of all lists."""
        return sum(len(lists.searches) for lists in self.made)


class Upkept:
    """An `IndexEngine` that is maintained after every change."""

    def __init__(self, engine: TieredIndex) -> None:
        self._engine = engine

    def apply(self, rows: Sequence[IndexRow], removed: Sequence[tuple[TenantName, ItemId]]) -> None:
        self._engine.apply(rows, removed)
        self._engine.maintain()

    def search(self, vector: VectorLike, wanted: WantedNeighbours) -> Neighbours:
        return self._engine.search(vector, wanted)

    def scan_size(self, tenant: TenantName, kind: ItemKind) -> int:
        return self._engine.scan_size(tenant, kind)

    def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        return self._engine.count(tenant, items)

    def save(self, folder: Path) -> None:
        self._engine.save(folder)

    def restore(self, folder: Path) -> None:
        self._engine.restore(folder)

    @property
    def vector_count(self) -> int:
        return self._engine.vector_count

    @property
    def generation(self) -> int:
        return self._engine.generation

    def tiers(self, tenant: TenantName | None = None) -> list[IndexTier]:
        return self._engine.tiers(tenant)

    def maintain(self) -> None:
        self._engine.maintain()

    def close(self) -> None:
        self._engine.close()
