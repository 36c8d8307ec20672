"""An immutable view of a partition, the masks that filters and clocks select, and allowed rows."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serving.adapters.vector_index import arrays
from serving.adapters.vector_index.arrays import Array
from serving.adapters.vector_index.lists.inverted_lists import (
    InvertedLists,
    ListFilter,
    TrainedLists,
)
from serving.adapters.vector_index.rows.columns import (
    CLOSING_WIDTH,
    RESTS_ON_WIDTH,
    Columns,
    Mask,
    Slots,
    among,
    as_numpy,
    as_table,
    only_stands_for,
)
from serving.domain.items.instants import (
    AFTER_ALL,
    BEFORE_ALL,
    ClockTimes,
    Span,
    microseconds,
)
from serving.domain.items.passage import Part
from serving.domain.items.records import ItemId
from serving.domain.items.text import MAX_MENTIONS
from serving.domain.questions.query import TimeRange

_NO_ROWS = array("q")


@dataclass(frozen=True, eq=False)
class PartitionView:
    """The first rows of a partition, and which of them are alive. Masks are bool (rows,).

    The rows below `covered` are also in the lists of `trained`; the others are the tail. `slots`
    has the rows of each item, and may be newer than the view.
    """

    columns: Columns
    alive: Mask
    latest_event: int = BEFORE_ALL
    trained: TrainedLists | None = None
    covered: int = 0
    slots: dict[ItemId, range] = field(default_factory=dict)
    _sessions: dict[str, list[int]] = field(default_factory=dict)

    @cached_property
    def count(self) -> int:
        """The number of rows, dead ones included."""
        return len(self.alive)

    @cached_property
    def alive_count(self) -> int:
        return int(np.count_nonzero(self.alive))

    @property
    def tail(self) -> int:
        """The number of rows that are in no list."""
        return self.count - self.covered

    @property
    def vectors(self) -> Array:
        """The vectors of the rows: float16 (rows, dimension), on the device."""
        return self.columns.vectors[: self.count]

    def row_of(self, item: ItemId) -> int | None:
        """The first row of an item; None if this view has none."""
        rows = self.slots.get(item)
        return rows.start if rows is not None and rows.start < self.count else None

    def adjacent(self, row: int) -> tuple[int | None, int | None]:
        """The first rows of the turns before and after a row's, which is the first of its item."""
        session = self.columns.sessions[row]
        if not session or not self.alive[row]:
            return None, None
        turns = self._sessions.get(session)
        if turns is None:
            turns = self._sessions[session] = self._in_order(session)
        place = turns.index(row)
        return (
            turns[place - 1] if place else None,
            turns[place + 1] if place + 1 < len(turns) else None,
        )

    def _in_order(self, session: str) -> list[int]:
        """The first rows of the turns of a session, by time, when they were stored, and id."""
        turns = as_numpy(self.columns.postings[session])
        turns = turns[turns < self.count]
        turns = turns[self.alive[turns]]
        turns = turns[np.diff(self.columns.numbers[turns], prepend=-1) != 0]
        times = np.stack([self.time("event_time")[turns], self.time("created_at")[turns]], axis=1)
        order = np.lexsort((times[:, 1], times[:, 0]))
        turns, times = turns[order], times[order]
        if not (times[1:] == times[:-1]).all(1).any():
            return [*turns.tolist()]
        ids = (self.columns.items[turn].id for turn in turns)
        return [
            turn for _, _, turn in sorted(zip(times.tolist(), ids, turns.tolist(), strict=True))
        ]

    def time(self, name: str) -> NDArray[np.int64]:
        """One time of each row, in microseconds: int64 (rows,)."""
        return self.columns.times[name][: self.count]

    def have_any(self, terms: Iterable[str]) -> Mask:
        mask = np.zeros(self.count, np.bool_)
        for term in terms:
            if (posting := self.columns.postings.get(term)) is not None:
                slots = as_numpy(posting)
                mask[slots[slots < self.count]] = True
        return mask

    def have_any_within(self, first: str, end: str) -> Mask:
        """The rows with a term from `first` on and before `end`."""
        # A list, which is made at once: a writer may add terms meanwhile.
        return self.have_any(each for each in [*self.columns.postings] if first <= each < end)

    def within(self, name: str, start: datetime | None, end: datetime | None) -> Mask:
        instants = self.time(name)
        mask = np.ones(self.count, np.bool_)
        if start is not None:
            mask &= (instants >= microseconds(start)) | (instants == BEFORE_ALL)
        if end is not None:
            mask &= instants < microseconds(end)
        return mask

    def unchanged_span(self, as_of: int, names: Iterable[str]) -> Span:
        """The span around an instant in which none of the named times of any row passes."""
        since, until = BEFORE_ALL, AFTER_ALL
        for name in names:
            instants = self.time(name)
            gone_by = instants <= as_of
            since = max(since, int(instants[gone_by].max(initial=BEFORE_ALL)))
            until = min(until, int(instants[~gone_by].min(initial=AFTER_ALL)))
        return Span(since, until)

    def known(self, clocks: ClockTimes) -> Mask:
        """The facts that were recorded and not yet retracted."""
        mask: Mask = self.time("retracted_at") > clocks.retracted_by
        if clocks.recorded_by is not None:
            mask &= self.time("recorded_at") <= clocks.recorded_by
        return mask

    def ends(self, clocks: ClockTimes) -> NDArray[np.int64]:
        """When each fact ended, according to the closings known by the clocks: int64 (rows,)."""
        if clocks.recorded_by is None:
            return self.time("final_end")
        slots, at, _ = self.closings(clocks).T
        ends = self.time("valid_to").copy()
        np.minimum.at(ends, slots, at)
        return ends

    def closings(self, clocks: ClockTimes) -> NDArray[np.int64]:
        """Of each known closing the fact's row, its time, and the number of what closes it."""
        closings = as_table(self.columns.closings, CLOSING_WIDTH)
        slots, _, recorded_at, retracted_at, _ = closings.T
        known = (slots < self.count) & (retracted_at > clocks.retracted_by)
        if clocks.recorded_by is not None:
            known &= recorded_at <= clocks.recorded_by
        chosen: NDArray[np.int64] = closings[known][:, [0, 1, 4]]
        return chosen

    def mentioning(self, key: str) -> list[int]:
        """The first row of each item that mentions an entity; none if more than a few dozen do."""
        postings, numbers = self.columns.postings, self.columns.numbers
        others = set(postings.get(only_stands_for(key), ()))
        first: dict[int, int] = {}
        for term in (f"e:{key}", f"s:{key}"):
            # From the end, so that every row of an item is met by its first one last.
            for slot in reversed(postings.get(term, _NO_ROWS)):
                if slot < self.count and self.alive[slot] and slot not in others:
                    first[int(numbers[slot])] = slot
                    if len(first) > MAX_MENTIONS:
                        return []
        return list(first.values())

    def part_at(self, row: int) -> Part | None:
        """The part of its item that a row is the vector of; None if it is of the whole item."""
        items, first, last = self.columns.items, row, row
        item = items[row]
        while first > 0 and items[first - 1] == item and self.alive[first - 1]:
            first -= 1
        while last + 1 < self.count and items[last + 1] == item and self.alive[last + 1]:
            last += 1
        return Part(row - first + 1, last - first + 1) if last > first else None

    def numbers_of(self, mask: Mask) -> Slots:
        return self.columns.numbers[: self.count][mask]

    def numbered(self, numbers: Slots, highest: int) -> Mask:
        """The rows of the items with these numbers, all of them below `highest`."""
        return among(numbers, highest)[self.columns.numbers[: self.count]]

    def resting_on(self, numbers: Slots, highest: int) -> Mask:
        """The facts with evidence among these segments, by number; all are below `highest`."""
        pairs = self.evidence_pairs(highest)
        mask = np.zeros(self.count, np.bool_)
        mask[pairs[among(numbers, highest)[pairs[:, 1]], 0]] = True
        return mask

    def evidence_pairs(self, highest: int) -> NDArray[np.int64]:
        """Each fact's row with the number of an evidence segment below `highest`: int64 (n, 2)."""
        pairs = as_table(self.columns.rests_on, RESTS_ON_WIDTH)
        return pairs[(pairs[:, 0] < self.count) & (pairs[:, 1] < highest)]

    def valid_within(self, allowed: TimeRange, ends: NDArray[np.int64]) -> Mask:
        """The facts whose validity overlaps the range, by the rules of `TimeRange.overlaps`."""
        mask = np.ones(self.count, np.bool_)
        if allowed.end is not None:
            mask &= self.time("valid_from") < microseconds(allowed.end)
        if allowed.start is not None:
            mask &= ends > microseconds(allowed.start)
        return mask


class AllowedRows:
    """The rows of a view that a search may return, with conversions for consecutive searches.

    `mask` is bool (rows,), on the host; kept, and never changed.
    """

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
