"""The rows of one kind of one tenant, and the only way to change them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from serving.adapters.vector_index.columns import (
    CLOSING_WIDTH,
    Columns,
    Mask,
    Numbers,
    as_table,
)
from serving.adapters.vector_index.instants import AFTER_ALL, BEFORE_ALL
from serving.adapters.vector_index.view import View
from serving.domain.records import ItemId
from serving.ports import IndexRow

FIRST_CAPACITY = 256

LEAST_DEAD_TO_COMPACT = 64
"""From here on, dead rows are given up once they are more than a quarter."""


class Shelf:
    """The rows of one kind of one tenant, and the only way to change them."""

    def __init__(self, dimension: int, device: torch.device, numbers: Numbers) -> None:
        self._columns = Columns(FIRST_CAPACITY, dimension, device)
        self.numbers = numbers
        self.slots: dict[ItemId, range] = {}
        self.view = View(self._columns, np.zeros(0, np.bool_))

    def change(self, rows: Sequence[IndexRow], removed: Iterable[ItemId]) -> None:
        """Publishes a view with the rows put in place and the others gone."""
        dead = [self.slots.pop(item) for item in removed if item in self.slots]
        self._make_room(sum(len(row.vectors) for row in rows))
        for row in rows:
            if row.item in self.slots:
                dead.append(self.slots.pop(row.item))
            if len(row.vectors):
                self.slots[row.item] = self._columns.append(row, self.numbers)
        alive = np.ones(len(self._columns), np.bool_)
        alive[: self.view.count] = self.view.alive
        for slots in dead:
            alive[slots.start : slots.stop] = False
        self._publish(alive)
        self._compact()

    def _make_room(self, more: int) -> None:
        needed = len(self._columns) + more
        if needed > self._columns.capacity:
            all_rows = np.arange(len(self._columns))
            self._columns = self._columns.copied(all_rows, max(needed, 2 * self._columns.capacity))

    def _publish(self, alive: Mask) -> None:
        latest = self._columns.times["event_time"][: len(alive)].max(initial=BEFORE_ALL)
        retractions = as_table(self._columns.closings, CLOSING_WIDTH)[:, -1]
        last = retractions[retractions < AFTER_ALL].max(initial=BEFORE_ALL)
        self.view = View(self._columns, alive, int(latest), int(last))

    def _compact(self) -> None:
        kept = np.flatnonzero(self.view.alive)
        dead = self.view.count - len(kept)
        if dead <= LEAST_DEAD_TO_COMPACT or dead <= self.view.count / 4:
            return
        self._columns = self._columns.copied(kept, max(FIRST_CAPACITY, 2 * len(kept)))
        slots: dict[ItemId, range] = {}
        for slot, item in enumerate(self._columns.items):
            slots[item] = range(slots[item].start if item in slots else slot, slot + 1)
        self.slots = slots
        self._publish(np.ones(len(kept), np.bool_))
