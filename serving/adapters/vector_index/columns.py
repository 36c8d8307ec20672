"""The rows of a shelf, column by column: vectors, and what filters and clocks ask for."""

from __future__ import annotations

import copy
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from serving.adapters.vector_index.instants import AFTER_ALL, BEFORE_ALL, microseconds, times_of
from serving.domain.records import ItemId, ItemKind, segment_id
from serving.ports import IndexRow

RESTS_ON_WIDTH, CLOSING_WIDTH = 2, 4

BLOCK = 2048
"""So many names are copied before others are let go on; less than a millisecond."""

TERMS_AT_ONCE = 256
"""The same of terms."""

VECTORS_AT_ONCE = 65_536
"""So many are copied at once: they are in memory a third time meanwhile, and keep a GPU busy."""

Mask = NDArray[np.bool_]
"""bool (rows,)."""

Slots = NDArray[np.int64]
"""int64 (n,): numbers of rows."""

Column = TypeVar("Column", NDArray[np.int64], NDArray[np.float64])

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


_TIMES_OF_FACTS = {"valid_from", "valid_to", "final_end", "recorded_at", "retracted_at"}
"""What segments never have."""


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
    `last_retraction` is that of a fact that closed another.
    """

    def __init__(self, capacity: int, dimension: int, device: torch.device) -> None:
        # What is beyond the rows is never read: to write zeros there would be for nothing.
        self.vectors = torch.empty((capacity, dimension), dtype=torch.float16, device=device)
        self.importance = np.zeros(capacity, np.float64)
        self.times = {name: np.zeros(capacity, np.int64) for name in _TIMES_IF_MISSING}
        self.numbers = np.zeros(capacity, np.int64)
        self.items: list[ItemId] = []
        self.evidence: list[tuple[str, ...]] = []
        self.rests_on = array("q")
        self.closings = array("q")
        self.postings: defaultdict[str, array[int]] = defaultdict(lambda: array("q"))
        self.latest_event = BEFORE_ALL
        self.last_retraction = BEFORE_ALL

    def __len__(self) -> int:
        return len(self.items)

    @property
    def capacity(self) -> int:
        """How many rows there is room for."""
        return len(self.importance)

    def append(self, rows: Sequence[IndexRow], numbers: Numbers) -> list[range]:
        """Writes a row for each vector, all at once; there must be room.

        Returns:
            The rows of each item, in the order given.
        """
        if not rows:
            return []
        counts = [len(row.vectors) for row in rows]
        ends = np.cumsum(counts) + len(self)
        window = slice(len(self), int(ends[-1]))
        slots = [range(end - count, end) for count, end in zip(counts, ends.tolist(), strict=True)]
        vectors = np.concatenate([row.vectors for row in rows])
        self.vectors[window] = torch.from_numpy(vectors).to(self.vectors.device)
        self.importance[window] = np.repeat([row.importance for row in rows], counts)
        self.numbers[window] = np.repeat([numbers[row.item] for row in rows], counts)
        has_facts = any(row.item.kind is ItemKind.FACT for row in rows)
        for name, missing in _TIMES_IF_MISSING.items():
            if has_facts or name not in _TIMES_OF_FACTS:
                self.times[name][window] = np.repeat(_instants(rows, name, missing), counts)
            else:
                self.times[name][window] = missing
        for row, of_row in zip(rows, slots, strict=True):
            self._append_lists(row, of_row, numbers)
        self.latest_event = max(self.latest_event, int(self.times["event_time"][window].max()))
        return slots

    def _append_lists(self, row: IndexRow, slots: range, numbers: Numbers) -> None:
        """Writes what has no fixed width."""
        for term in row.terms:
            self.postings[term].extend(slots)
        if row.evidence or row.closings:
            for slot in slots:
                for id_ in row.evidence:
                    self.rests_on.extend((slot, numbers[segment_id(id_)]))
                for closing in row.closings:
                    self.closings.extend((slot, *times_of(closing)))
        for closing in row.closings:
            if closing.retracted_at is not None:
                retracted_at = microseconds(closing.retracted_at)
                self.last_retraction = max(self.last_retraction, retracted_at)
        self.evidence.extend([row.evidence] * len(slots))
        self.items.extend([row.item] * len(slots))

    def grown(self, capacity: int) -> Columns:
        """The same rows with room for `capacity`; both share what has no fixed room."""
        grown, count = copy.copy(self), len(self)
        vectors = self.vectors.new_empty((capacity, self.vectors.shape[1]))
        vectors[:count] = self.vectors[:count]
        grown.vectors = vectors
        grown.importance = _with_room(self.importance[:count], capacity)
        grown.numbers = _with_room(self.numbers[:count], capacity)
        grown.times = {
            name: _with_room(times[:count], capacity) for name, times in self.times.items()
        }
        return grown

    def copied(
        self, kept: Slots, end: int, capacity: int, pause: Callable[[], None] | None = None
    ) -> Columns:
        """The kept rows, renumbered, with room for `capacity`.

        Safe beside an `append`: it reads nothing of the rows from `end` on.

        Args:
            kept: Rows below `end`, ascending.
            end: The number of rows to choose from.
            capacity: At least as many as are kept.
            pause: Called now and then, for others that wait for the interpreter.
        """
        pause = pause or (lambda: None)
        result = Columns(capacity, self.vectors.shape[1], self.vectors.device)
        count = len(kept)
        for start in range(0, count, VECTORS_AT_ONCE):
            slots = torch.from_numpy(kept[start : start + VECTORS_AT_ONCE]).to(self.vectors.device)
            result.vectors[start : start + len(slots)] = self.vectors[slots]
            pause()
        result.importance[:count] = self.importance[kept]
        for name, column in self.times.items():
            result.times[name][:count] = column[kept]
        result.numbers[:count] = self.numbers[kept]
        for block in _blocks(kept, pause):
            result.items += [self.items[slot] for slot in block]
            result.evidence += [self.evidence[slot] for slot in block]
        renumbered = np.full(end, -1, np.int64)
        renumbered[kept] = np.arange(count)
        result.postings.update(self._postings_of(renumbered, pause))
        result.rests_on = _renumbered(as_table(self.rests_on, RESTS_ON_WIDTH), renumbered)
        result.closings = _renumbered(as_table(self.closings, CLOSING_WIDTH), renumbered)
        result.note_latest()
        return result

    def note_latest(self) -> None:
        """Works out `latest_event` and `last_retraction` from the rows."""
        events = self.times["event_time"][: len(self)]
        self.latest_event = int(events.max(initial=BEFORE_ALL))
        retractions = as_table(self.closings, CLOSING_WIDTH)[:, -1]
        retractions = retractions[retractions < AFTER_ALL]
        self.last_retraction = int(retractions.max(initial=BEFORE_ALL))

    def _postings_of(
        self, renumbered: Slots, pause: Callable[[], None]
    ) -> Iterator[tuple[str, array[int]]]:
        """The postings of the rows that have a new number."""
        # A list of names alone: as many pairs, alive at once, would set off a full collection of
        # garbage, which stops every thread for a tenth of a second and more.
        for number, term in enumerate(list(self.postings)):
            if number % TERMS_AT_ONCE == TERMS_AT_ONCE - 1:
                pause()
            slots = as_numpy(self.postings[term])
            slots = renumbered[slots[slots < len(renumbered)]]
            if (slots := slots[slots >= 0]).size:
                yield term, array("q", slots.tobytes())


def _instants(rows: Sequence[IndexRow], name: str, missing: int) -> list[int]:
    """One of the times of each row, in microseconds."""
    instants: Iterable[datetime | None] = map(attrgetter(name), rows)
    return [missing if instant is None else microseconds(instant) for instant in instants]


def _blocks(slots: Slots, pause: Callable[[], None]) -> Iterator[list[int]]:
    """The rows in blocks, with a pause after each."""
    for start in range(0, len(slots), BLOCK):
        yield slots[start : start + BLOCK].tolist()
        pause()


def _with_room(values: Column, capacity: int) -> Column:
    room = np.zeros(capacity, values.dtype)
    room[: len(values)] = values
    return room


def as_numpy(growing: array[int]) -> Slots:
    """A copy of the numbers: int64 (n,)."""
    # Through bytes: numpy must not hold the buffer of an array that may grow meanwhile.
    return np.frombuffer(growing.tobytes(), np.int64)


def as_table(growing: array[int], width: int) -> NDArray[np.int64]:
    """The numbers in lines of so many, of which the first is a row: int64 (n, width)."""
    return as_numpy(growing).reshape(-1, width)


def _renumbered(table: NDArray[np.int64], renumbered: Slots) -> array[int]:
    """The lines of the kept rows, under the rows' new numbers; -1 is a row that goes."""
    table = table[table[:, 0] < len(renumbered)]
    moved = np.column_stack([renumbered[table[:, 0]], table[:, 1:]])
    return array("q", moved[moved[:, 0] >= 0].tobytes())


def among(numbers: Slots, highest: int) -> Mask:
    """Whether each number below `highest` is one of these."""
    wanted = np.zeros(highest, np.bool_)
    wanted[numbers] = True
    return wanted
