"""The rows that a search may return, with cached conversions for consecutive searches."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serving.adapters.vector_index import arrays
from serving.adapters.vector_index.arrays import Array
from serving.adapters.vector_index.lists.inverted_lists import InvertedLists, ListFilter
from serving.adapters.vector_index.rows.columns import Mask, Slots


class AllowedRows:
    """A mask of a view's rows: bool (rows,), on the host; kept, and never changed."""

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self._list_filter: tuple[InvertedLists, ListFilter] | None = None
        self._copies: dict[str, Array] = {}

    @cached_property
    def count(self) -> int:
        return int(np.count_nonzero(self.mask))

    @property
    def share(self) -> float:
        """The share of allowed rows among all rows; 0 if there are none."""
        return self.count / len(self.mask) if len(self.mask) else 0.0

    def slots(self, start: int = 0) -> Slots:
        """The allowed rows from `start` on: int64 (n,), ascending."""
        return np.flatnonzero(self.mask[start:]) + start

    def slots_on(self, device: object) -> Array:
        """The allowed rows on a GPU: int64 (n,); cached."""
        return self._on_device("slots", self.slots, device)

    def excluded_on(self, device: object) -> Array:
        """The rows that are not allowed, on a GPU: bool (rows,); cached."""
        return self._on_device("excluded", lambda: ~self.mask, device)

    def _on_device(self, name: str, make: Callable[[], NDArray[Any]], device: object) -> Array:
        if name not in self._copies:
            self._copies[name] = arrays.on_device(make(), device)
        return self._copies[name]

    def in_lists(self, lists: InvertedLists) -> ListFilter:
        """The mask as a filter of these lists; cached."""
        made = self._list_filter
        if made is None or made[0] is not lists:
            made = self._list_filter = lists, lists.allow(self.mask)
        return made[1]
