"""The rows of a shelf, column by column: vectors, and what filters and clocks ask for."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

import numpy as np
import torch
from numpy.typing import NDArray

from serving.adapters.vector_index.instants import AFTER_ALL, BEFORE_ALL, microseconds, times_of
from serving.domain.records import ItemId, segment_id
from serving.ports import IndexRow

RESTS_ON_WIDTH, CLOSING_WIDTH = 2, 4

Mask = NDArray[np.bool_]
"""bool (rows,)."""

Slots = NDArray[np.int64]
"""int64 (n,): numbers of rows."""

_TIMES_IF_MISSING = {
    "event_time": BEFORE_ALL,
    "created_at": BEFORE_ALL,
    "updated_at": BEFORE_ALL,
    "valid_from": BEFORE_ALL,
    "valid_to": AFTER_ALL,
    "final_end": AFTER_ALL,
    "recorded_at": BEFORE_ALL,
    "retracted_at": AFTER_ALL,
}


class Numbers(dict[ItemId, int]):
    """Numbers the items of a tenant as they are first asked for."""

    def __missing__(self, item: ItemId) -> int:
        number = self[item] = len(self)
        return number

    def known(self, items: Iterable[ItemId], highest: int) -> Slots:
        """The numbers below `highest` of those items that have one."""
        numbers = (self.get(item, highest) for item in items)
        return np.fromiter((number for number in numbers if number < highest), np.int64)


class Columns:
    """The rows of a shelf. Filled in order; what is below a view's count never changes.

    `numbers` holds that of each row's item, `rests_on` pairs of a fact's row and the
    number of a segment it rests on, `closings` a fact's row and the times of one of its closings.
    """

    def __init__(self, capacity: int, dimension: int, device: torch.device) -> None:
        self.vectors = torch.zeros((capacity, dimension), dtype=torch.float16, device=device)
        self.importance = np.zeros(capacity, np.float64)
        self.times = {name: np.zeros(capacity, np.int64) for name in _TIMES_IF_MISSING}
        self.numbers = np.zeros(capacity, np.int64)
        self.items: list[ItemId] = []
        self.evidence: list[tuple[str, ...]] = []
        self.rests_on = array("q")
        self.closings = array("q")
        self.postings: defaultdict[str, array[int]] = defaultdict(lambda: array("q"))

    def __len__(self) -> int:
        return len(self.items)

    @property
    def capacity(self) -> int:
        """How many rows there is room for."""
        return len(self.importance)

    def append(self, row: IndexRow, numbers: Numbers) -> range:
        """Writes a row for each vector; there must be room."""
        slots = range(len(self), len(self) + len(row.vectors))
        window = slice(slots.start, slots.stop)
        self.vectors[window] = torch.tensor(row.vectors, device=self.vectors.device)
        self.importance[window] = row.importance
        for name, missing in _TIMES_IF_MISSING.items():
            instant: datetime | None = getattr(row, name)
            self.times[name][window] = missing if instant is None else microseconds(instant)
        for term in row.terms:
            self.postings[term].extend(slots)
        self.numbers[window] = numbers[row.item]
        for slot in slots:
            for id_ in row.evidence:
                self.rests_on.extend((slot, numbers[segment_id(id_)]))
            for closing in row.closings:
                self.closings.extend((slot, *times_of(closing)))
        self.evidence.extend([row.evidence] * len(slots))
        self.items.extend([row.item] * len(slots))
        return slots

    def copied(self, kept: Slots, capacity: int) -> Columns:
        """The kept rows, renumbered, with room for `capacity`."""
        copy = Columns(capacity, self.vectors.shape[1], self.vectors.device)
        count = len(kept)
        copy.vectors[:count] = self.vectors[torch.from_numpy(kept).to(self.vectors.device)]
        copy.importance[:count] = self.importance[kept]
        for name, column in self.times.items():
            copy.times[name][:count] = column[kept]
        copy.items = [self.items[slot] for slot in kept.tolist()]
        copy.evidence = [self.evidence[slot] for slot in kept.tolist()]
        renumbered = np.full(len(self), -1, np.int64)
        renumbered[kept] = np.arange(count)
        for term, posting in self.postings.items():
            slots = renumbered[as_numpy(posting)]
            if (slots := slots[slots >= 0]).size:
                copy.postings[term] = array("q", slots.tobytes())
        copy.numbers[:count] = self.numbers[kept]
        copy.rests_on = _renumbered(as_table(self.rests_on, RESTS_ON_WIDTH), renumbered)
        copy.closings = _renumbered(as_table(self.closings, CLOSING_WIDTH), renumbered)
        return copy


def as_numpy(growing: array[int]) -> Slots:
    """A copy of the numbers: int64 (n,)."""
    # Through bytes: numpy must not hold the buffer of an array that may grow meanwhile.
    return np.frombuffer(growing.tobytes(), np.int64)


def as_table(growing: array[int], width: int) -> NDArray[np.int64]:
    """The numbers in lines of so many, of which the first is a row: int64 (n, width)."""
    return as_numpy(growing).reshape(-1, width)


def _renumbered(table: NDArray[np.int64], renumbered: Slots) -> array[int]:
    """The lines of the kept rows, under the rows' new numbers; -1 is a row that goes."""
    moved = np.column_stack([renumbered[table[:, 0]], table[:, 1:]])
    return array("q", moved[moved[:, 0] >= 0].tobytes())


def among(numbers: Slots, highest: int) -> Mask:
    """Whether each number below `highest` is one of these."""
    wanted = np.zeros(highest, np.bool_)
    wanted[numbers] = True
    return wanted
