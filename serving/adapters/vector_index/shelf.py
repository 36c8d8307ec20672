"""The rows of one kind of one tenant, and the only way to change them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from serving.adapters.vector_index.columns import BLOCK, Columns, Mask, Numbers
from serving.adapters.vector_index.trained import Trained
from serving.adapters.vector_index.view import View
from serving.domain.records import ItemId
from serving.ports import IndexRow, VectorLike

FIRST_CAPACITY = 256

LEAST_DEAD_TO_COMPACT = 64
"""From here on, dead rows are given up once they are more than a quarter."""

REMEMBERED_QUERIES = 128


class Change(NamedTuple):
    """Rows to put in the place of those of their names, after others were removed.

    No two rows have the same name: of an earlier one nobody would know the slots.
    """

    rows: Sequence[IndexRow]
    removed: Sequence[ItemId]

    @property
    def names(self) -> list[ItemId]:
        """All items whose rows until now are gone after it."""
        return [*self.removed, *(row.item for row in self.rows)]

    @property
    def size(self) -> int:
        """How many items it is about, those named twice counted twice."""
        return len(self.rows) + len(self.removed)


class Asked(NamedTuple):
    """A question that was put to the shelf."""

    vector: VectorLike
    depth: int


def merged(changes: Iterable[Change]) -> Change:
    """One change that comes to the same as many, one after the other."""
    last: dict[ItemId, IndexRow | None] = {}
    for change in changes:
        last.update(dict.fromkeys(change.removed))
        last.update({row.item: row for row in change.rows})
    return Change([row for row in last.values() if row is not None], list(last))


class Shelf:
    """The rows of one kind of one tenant.

    One thread at a time calls what changes it. `view` may be read by all.

    Args:
        columns: Its rows; all of them live.
        numbers: Those of the tenant's items.
        trained: Lists that have all of these rows.
        pause: Called now and then, for others that wait for the interpreter.
    """

    def __init__(
        self,
        columns: Columns,
        numbers: Numbers,
        trained: Trained | None = None,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self._columns = columns
        self._journal: list[Change] | None = None
        self.numbers = numbers
        self.slots = _slots_of(columns.items, range(len(columns)), pause)
        self.asked: deque[Asked] = deque(maxlen=REMEMBERED_QUERIES)
        alive = np.ones(len(columns), np.bool_)
        self._publish(alive, trained, len(columns) if trained is not None else 0)

    @classmethod
    def empty(cls, dimension: int, device: torch.device, numbers: Numbers) -> Shelf:
        """A shelf without rows."""
        return cls(Columns(FIRST_CAPACITY, dimension, device), numbers)

    @classmethod
    def restored(
        cls,
        columns: Columns,
        numbers: Numbers,
        alive: Mask,
        trained: Trained | None,
        covered: int,
    ) -> Shelf:
        """A shelf as it was, dead rows included: slots are what lists know rows by."""
        shelf = cls(columns, numbers)
        shelf.slots = _slots_of(columns.items, np.flatnonzero(alive).tolist())
        shelf._publish(alive, trained, covered)
        return shelf

    def change(self, change: Change) -> None:
        """Publishes a view with the rows put in place and the others gone."""
        if self._journal is not None:
            self._journal.append(change)
        dead = [self.slots.pop(item) for item in change.names if item in self.slots]
        rows = [row for row in change.rows if len(row.vectors)]
        self._make_room(sum(len(row.vectors) for row in rows))
        placed = self._columns.append(rows, self.numbers)
        self.slots.update(zip((row.item for row in rows), placed, strict=True))
        alive = np.ones(len(self._columns), np.bool_)
        alive[: self.view.count] = self.view.alive
        for slots in dead:
            alive[slots.start : slots.stop] = False
        self._publish(alive, self.view.trained, self.view.covered)
        self._compact()

    def cover(self, end: int) -> None:
        """Publishes a view of which the rows below `end` are in the lists."""
        self._publish(self.view.alive, self.view.trained, end)

    def watch(self) -> View:
        """The rows as they are; what changes from now on is noted."""
        self._journal = []
        return self.view

    def noted(self) -> Change:
        """What changed since `watch`, or since this was asked last."""
        changes, self._journal = self._journal or [], []
        return merged(changes)

    def unwatch(self) -> None:
        """Ends what `watch` began."""
        self._journal = None

    def _make_room(self, more: int) -> None:
        needed = len(self._columns) + more
        if needed > self._columns.capacity:
            self._columns = self._columns.grown(max(needed, 2 * self._columns.capacity))

    def _publish(self, alive: Mask, trained: Trained | None, covered: int) -> None:
        self.view = View(
            self._columns,
            alive,
            self._columns.latest_event,
            self._columns.last_retraction,
            trained,
            covered,
        )

    def _compact(self) -> None:
        if self.view.trained is not None:
            return  # the lists name rows by their slots; a rebuild gives them others
        kept = np.flatnonzero(self.view.alive)
        dead = self.view.count - len(kept)
        if dead <= LEAST_DEAD_TO_COMPACT or dead <= self.view.count / 4:
            return
        room = max(FIRST_CAPACITY, 2 * len(kept))
        self._columns = self._columns.copied(kept, self.view.count, room)
        self.slots = _slots_of(self._columns.items, range(len(self._columns)))
        self._publish(np.ones(len(kept), np.bool_), None, 0)


def _slots_of(
    items: Sequence[ItemId], living: Sequence[int], pause: Callable[[], None] = lambda: None
) -> dict[ItemId, range]:
    """The living rows of each item, which lie side by side."""
    slots: dict[ItemId, range] = {}
    for place, slot in enumerate(living):
        item = items[slot]
        if place % BLOCK == BLOCK - 1:
            pause()
        slots[item] = range(slots[item].start if item in slots else slot, slot + 1)
    return slots
