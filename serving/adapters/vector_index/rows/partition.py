"""The rows of one kind of one tenant, and the only way to change them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from serving.adapters.vector_index.arrays import Place
from serving.adapters.vector_index.lists.inverted_lists import TrainedLists
from serving.adapters.vector_index.rows.columns import BLOCK, Columns, ItemNumbers, Mask
from serving.adapters.vector_index.rows.view import PartitionView
from serving.domain.items.records import ItemId
from serving.ports.index_engine import IndexRow

FIRST_CAPACITY = 256

MIN_DEAD_TO_COMPACT = 64
"""Above this, a partition is compacted once more than a quarter of its rows are dead."""


class RowChanges(NamedTuple):
    """Items to remove, then rows to insert or replace. No two rows have the same item."""

    rows: Sequence[IndexRow]
    removed: Sequence[ItemId]

    @property
    def items(self) -> list[ItemId]:
        """All items whose present rows die by the change."""
        return [*self.removed, *(row.item for row in self.rows)]

    @property
    def size(self) -> int:
        """The number of changes; an item in both parts counts twice."""
        return len(self.rows) + len(self.removed)


def merged(changes: Iterable[RowChanges]) -> RowChanges:
    """One change with the effect of several, applied in order."""
    last: dict[ItemId, IndexRow | None] = {}
    for change in changes:
        last.update(dict.fromkeys(change.removed))
        last.update({row.item: row for row in change.rows})
    return RowChanges([row for row in last.values() if row is not None], list(last))


class Partition:
    """The rows of one kind of one tenant.

    Only one thread at a time may call the methods that change it. Any thread may read `view`. The
    columns that it starts with are all alive, and all in the lists if there are some. `pause` is
    called regularly, to yield the GIL to other threads.
    """

    def __init__(
        self,
        columns: Columns,
        numbers: ItemNumbers,
        trained: TrainedLists | None = None,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self._columns = columns
        self._journal: list[RowChanges] | None = None
        self.numbers = numbers
        self.slots = _slots_of(columns.items, pause)
        alive = np.ones(len(columns), np.bool_)
        self._publish(alive, trained, len(columns) if trained is not None else 0)

    @classmethod
    def empty(cls, dimension: int, place: Place, numbers: ItemNumbers) -> Partition:
        return cls(Columns(FIRST_CAPACITY, dimension, place), numbers)

    def change(self, change: RowChanges) -> None:
        """Applies a change and publishes a view of the result."""
        if self._journal is not None:
            self._journal.append(change)
        dead = [self.slots.pop(item) for item in change.items if item in self.slots]
        rows = [row for row in change.rows if len(row.vectors)]
        needed = len(self._columns) + sum(len(row.vectors) for row in rows)
        if needed > self._columns.capacity:
            self._columns = self._columns.grown(max(needed, 2 * self._columns.capacity))
        placed = self._columns.append(rows, self.numbers)
        self.slots.update(zip((row.item for row in rows), placed, strict=True))
        alive = np.ones(len(self._columns), np.bool_)
        alive[: self.view.count] = self.view.alive
        for slots in dead:
            alive[slots.start : slots.stop] = False
        self._publish(alive, self.view.trained, self.view.covered)
        self._compact()

    def cover(self, end: int) -> None:
        """Publishes a view in which the rows below `end` are in the lists."""
        self._publish(self.view.alive, self.view.trained, end)

    def start_journal(self) -> PartitionView:
        """Returns the present rows and records all later changes."""
        self._journal = []
        return self.view

    def drain_journal(self) -> RowChanges:
        """Returns and clears the changes recorded so far."""
        changes, self._journal = self._journal or [], []
        return merged(changes)

    def stop_journal(self) -> None:
        self._journal = None

    def _publish(self, alive: Mask, trained: TrainedLists | None, covered: int) -> None:
        latest_event = self._columns.latest_event
        self.view = PartitionView(self._columns, alive, latest_event, trained, covered, self.slots)

    def _compact(self) -> None:
        if self.view.trained is not None:
            return  # lists identify rows by slot; only a rebuild renumbers them
        kept = np.flatnonzero(self.view.alive)
        dead = self.view.count - len(kept)
        if dead <= MIN_DEAD_TO_COMPACT or dead <= self.view.count / 4:
            return
        room = max(FIRST_CAPACITY, 2 * len(kept))
        self._columns = self._columns.copied(kept, self.view.count, room)
        self.slots = _slots_of(self._columns.items)
        self._publish(np.ones(len(kept), np.bool_), None, 0)


def _slots_of(
    items: Sequence[ItemId], pause: Callable[[], None] = lambda: None
) -> dict[ItemId, range]:
    """The rows of each item, which are adjacent."""
    slots: dict[ItemId, range] = {}
    for slot, item in enumerate(items):
        if slot % BLOCK == BLOCK - 1:
            pause()
        slots[item] = range(slots[item].start if item in slots else slot, slot + 1)
    return slots
