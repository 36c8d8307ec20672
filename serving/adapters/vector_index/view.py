"""What a search sees of a shelf, and the masks that filters and clocks make of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from serving.adapters.vector_index.columns import (
    CLOSING_WIDTH,
    RESTS_ON_WIDTH,
    Columns,
    Mask,
    Slots,
    among,
    as_numpy,
    as_table,
)
from serving.adapters.vector_index.instants import (
    AFTER_ALL,
    BEFORE_ALL,
    ClockTimes,
    Span,
    microseconds,
)
from serving.adapters.vector_index.trained import Trained
from serving.domain.query import Filter, TimeRange

ANY_TIME = TimeRange()


@dataclass(frozen=True, eq=False)
class View:
    """What a search sees of a shelf: the first rows, and which of them live.

    Those below `covered` are in the lists of `trained` too, if there are any.
    """

    columns: Columns
    alive: Mask
    latest_event: int = BEFORE_ALL
    last_retraction: int = BEFORE_ALL
    trained: Trained | None = None
    covered: int = 0

    @property
    def count(self) -> int:
        """How many rows it sees, dead ones included."""
        return len(self.alive)

    @cached_property
    def alive_count(self) -> int:
        """How many of them live."""
        return int(np.count_nonzero(self.alive))

    @property
    def tail(self) -> int:
        """How many of them no lists have."""
        return self.count - self.covered

    @property
    def vectors(self) -> torch.Tensor:
        """The vectors of the rows: float16 (rows, dimension), on the device."""
        return self.columns.vectors[: self.count]

    def time(self, name: str) -> NDArray[np.int64]:
        """One of the times of each row, in microseconds: int64 (rows,)."""
        return self.columns.times[name][: self.count]

    def have_any(self, terms: Iterable[str]) -> Mask:
        """The rows with one of the terms."""
        mask = np.zeros(self.count, np.bool_)
        for term in terms:
            if (posting := self.columns.postings.get(term)) is not None:
                slots = as_numpy(posting)
                mask[slots[slots < self.count]] = True
        return mask

    def within(self, name: str, allowed: TimeRange) -> Mask:
        """The rows whose time is in the range."""
        instants = self.time(name)
        mask = np.ones(self.count, np.bool_)
        if allowed.start is not None:
            mask &= instants >= microseconds(allowed.start)
        if allowed.end is not None:
            mask &= instants < microseconds(allowed.end)
        return mask

    def passing(self, filter_: Filter) -> Mask:
        """The living rows of segments that pass the filter, as `Filter.accepts` has it."""
        mask = self.alive.copy()
        for group in filter_.term_groups():
            mask &= self.have_any(group)
        if filter_.min_importance > 0:
            mask &= self.columns.importance[: self.count] >= filter_.min_importance
        if filter_.event_time != ANY_TIME:
            mask &= self.within("event_time", filter_.event_time)
        for name, allowed in (
            ("created_at", filter_.created_at),
            ("updated_at", filter_.updated_at),
        ):
            if allowed != ANY_TIME:
                mask &= self.within(name, allowed) | (self.time(name) == BEFORE_ALL)
        return mask

    def steady_about(self, as_of: int, names: Iterable[str]) -> Span:
        """From when until when, about an instant, none of these times of any row goes by."""
        since, until = BEFORE_ALL, AFTER_ALL
        for name in names:
            instants = self.time(name)
            gone_by = instants <= as_of
            since = max(since, int(instants[gone_by].max(initial=BEFORE_ALL)))
            until = min(until, int(instants[~gone_by].min(initial=AFTER_ALL)))
        return Span(since, until)

    def happened_by(self, as_of: int) -> Mask:
        """The rows not later than the instant."""
        happened: Mask = self.time("event_time") <= as_of
        return happened

    def known(self, clocks: ClockTimes) -> Mask:
        """The rows of facts that were recorded and not retracted yet."""
        mask: Mask = self.time("retracted_at") > clocks.retracted_by
        if clocks.recorded_by is not None:
            mask &= self.time("recorded_at") <= clocks.recorded_by
        return mask

    def ends(self, clocks: ClockTimes) -> NDArray[np.int64]:
        """When the truth of each fact ended, as far as was known: int64 (rows,)."""
        if clocks.recorded_by is None and clocks.retracted_by >= self.last_retraction:
            return self.time("final_end")
        closings = as_table(self.columns.closings, CLOSING_WIDTH)
        slots, at, recorded_at, retracted_at = closings[closings[:, 0] < self.count].T
        known = retracted_at > clocks.retracted_by
        if clocks.recorded_by is not None:
            known &= recorded_at <= clocks.recorded_by
        ends = self.time("valid_to").copy()
        np.minimum.at(ends, slots[known], at[known])
        return ends

    def numbers_of(self, mask: Mask) -> Slots:
        """The numbers of the items in the mask."""
        return self.columns.numbers[: self.count][mask]

    def numbered(self, numbers: Slots, highest: int) -> Mask:
        """The rows of items with one of the numbers; all numbers are below `highest`."""
        return among(numbers, highest)[self.columns.numbers[: self.count]]

    def resting_on(self, numbers: Slots, highest: int) -> Mask:
        """The rows of facts that rest on one of the segments; all numbers are below `highest`."""
        pairs = as_table(self.columns.rests_on, RESTS_ON_WIDTH)
        pairs = pairs[(pairs[:, 0] < self.count) & (pairs[:, 1] < highest)]
        mask = np.zeros(self.count, np.bool_)
        mask[pairs[among(numbers, highest)[pairs[:, 1]], 0]] = True
        return mask

    def valid_within(self, allowed: TimeRange, ends: NDArray[np.int64]) -> Mask:
        """The rows of facts whose validity overlaps the range, as `TimeRange.overlaps` has it."""
        mask = np.ones(self.count, np.bool_)
        if allowed.end is not None:
            mask &= self.time("valid_from") < microseconds(allowed.end)
        if allowed.start is not None:
            mask &= ends > microseconds(allowed.start)
        return mask
