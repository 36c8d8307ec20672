"""The rows that a scope accepts, and what was made of them for one search after another."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch

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
        self._on_device: torch.Tensor | None = None

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

    def slots_on(self, device: torch.device) -> torch.Tensor:
        """The allowed rows, on a device: int64 (n,). Made once, but for a CPU, which has them."""
        if self._on_device is not None:
            return self._on_device
        slots = torch.from_numpy(self.slots()).to(device)
        if device.type != "cpu":
            self._on_device = slots
        return slots

    def in_lists(self, lists: InvertedLists) -> AllowedRows:
        """The mask as the lists take it, made once."""
        made = self._of_lists
        if made is None or made[0] is not lists:
            made = self._of_lists = lists, lists.allow(self.mask)
        return made[1]
