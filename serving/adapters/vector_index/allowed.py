"""The rows that a scope accepts, and what was made of them for one search after another."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from serving.adapters.vector_index.columns import Mask, Slots
from serving.adapters.vector_index.inverted_lists import AllowedRows, InvertedLists


class Allowed:
    """A mask of a view's rows, which is never changed.

    Args:
        mask: bool (rows,).
    """

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self._of_lists: tuple[InvertedLists, AllowedRows] | None = None

    @cached_property
    def count(self) -> int:
        """How many rows are allowed."""
        return int(np.count_nonzero(self.mask))

    @property
    def share(self) -> float:
        """How much of all rows that is."""
        return self.count / len(self.mask) if len(self.mask) else 0.0

    def slots(self, start: int = 0) -> Slots:
        """The allowed rows from `start` on: int64 (n,), ascending."""
        return np.flatnonzero(self.mask[start:]) + start

    def in_lists(self, lists: InvertedLists) -> AllowedRows:
        """The mask as the lists take it, made once."""
        made = self._of_lists
        if made is None or made[0] is not lists:
            made = self._of_lists = lists, lists.allow(self.mask)
        return made[1]
