"""The rows of a partition, column by column: vectors, and the attributes that filters use."""

from __future__ import annotations

import copy
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from sys import intern
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from serving.adapters.vector_index import arrays
from serving.domain.items.instants import (
    AFTER_ALL,
    BEFORE_ALL,
    microseconds,
    times_of,
)
from serving.domain.items.records import ItemId, ItemKind, fact_id, segment_id
from serving.domain.items.text import name_key
from serving.domain.questions.filters import OF_SESSION
from serving.ports.index_engine import IndexRow

RESTS_ON_WIDTH, CLOSING_WIDTH = 2, 5

BLOCK = 2048
"""Items copied between two pauses for other threads; takes less than a millisecond."""

TERMS_AT_ONCE = 256
"""Terms copied between two pauses."""

VECTORS_AT_ONCE = 65_536
"""Vectors copied at once: enough to keep a GPU busy, and bounds the temporary third copy."""

Mask = NDArray[np.bool_]
"""bool (rows,)."""

Slots = NDArray[np.int64]
"""int64 (n,): row numbers."""

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
"""Times that segments never have."""


class ItemNumbers(dict[ItemId, int]):
    """Assigns each item of a tenant the next number on first access."""

    def __missing__(self, item: ItemId) -> int:
        number = self[item] = len(self)
        return number

    def known(self, items: Iterable[ItemId], highest: int) -> Slots:
        """The numbers of those items that have one below `highest`: int64 (n,)."""
        numbers = (self.get(item, highest) for item in items)
        return np.fromiter((number for number in numbers if number < highest), np.int64)


class Columns:
    """The rows of a partition. Append-only; rows below a view's count never change.

    Vectors are at `place`, all other columns on the host.

    Attributes:
        vectors: float16 (capacity, dimension).
        importance: float64 (capacity,).
        times: Microseconds by name: int64 (capacity,) each.
        numbers: The number of each row's item: int64 (capacity,).
        rests_on: Pairs of a fact's row and the number of an evidence segment.
        closings: A fact's row, the three times of one of its closings, see `times_of`, and the
            number of the fact that closes it.
        postings: The rows of each term, and of `only_stands_for` each entity.
        names: The distinct names of the rows, as they are written.
        keys: The `name_key` of each of the names.
        mentions: The numbers of the names that the rows mention, row after row.
        mention_ends: Where the mentions of each row end.
        speakers: The number of each row's speaker, whose name may be empty.
        sessions: The filter term of each row's session; empty if it has none.
        asks: Whether each row's text asks something, as a byte.
        states: The token states of each row's text, as `IndexRow.states`; empty if it has none.
    """

    def __init__(self, capacity: int, dimension: int, place: arrays.Place) -> None:
        # Not zeroed: memory beyond the rows is never read.
        self.place = place
        self.vectors = arrays.empty(capacity, dimension, place.of(capacity))
        self.importance = np.zeros(capacity, np.float64)
        self.times = {name: np.zeros(capacity, np.int64) for name in _TIMES_IF_MISSING}
        self.numbers = np.zeros(capacity, np.int64)
        self.items: list[ItemId] = []
        self.evidence: list[tuple[str, ...]] = []
        self.rests_on = array("q")
        self.closings = array("q")
        self.names: list[str] = []
        self.keys: list[str] = []
        self.mentions = array("i")
        self.mention_ends = array("q")
        self.speakers = array("i")
        self.sessions: list[str] = []
        self.asks = bytearray()
        self.states: list[bytes] = []
        self._numbers: dict[str, int] = {}
        self.postings: defaultdict[str, array[int]] = defaultdict(lambda: array("q"))
        self.latest_event = BEFORE_ALL

    def __len__(self) -> int:
        return len(self.items)

    @property
    def capacity(self) -> int:
        return len(self.importance)

    def append(self, rows: Sequence[IndexRow], numbers: ItemNumbers) -> list[range]:
        """Writes one row per vector; the capacity must suffice. Returns the rows of each item."""
        if not rows:
            return []
        counts = [len(row.vectors) for row in rows]
        ends = np.cumsum(counts) + len(self)
        window = slice(len(self), int(ends[-1]))
        slots = [range(end - count, end) for count, end in zip(counts, ends.tolist(), strict=True)]
        vectors = np.concatenate([row.vectors for row in rows])
        self.vectors[window] = arrays.on_device_of(vectors, self.vectors)
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

    def _append_lists(self, row: IndexRow, slots: range, numbers: ItemNumbers) -> None:
        """Appends the columns without a fixed width."""
        for term in row.terms:
            self.postings[term].extend(slots)
        if row.evidence or row.closings:
            for slot in slots:
                for id_ in row.evidence:
                    self.rests_on.extend((slot, numbers[segment_id(id_)]))
                for closing in row.closings:
                    by = numbers[fact_id(closing.by)]
                    self.closings.extend((slot, *times_of(closing), by))
        mentions = (*row.entities, row.speaker)
        key = name_key(row.entity)
        if key and key not in map(name_key, mentions):
            self.postings[only_stands_for(key)].extend(slots)
        self._append_names(mentions, row.speaker, len(slots))
        session = next((term for term in row.terms if term.startswith(OF_SESSION)), "")
        self.sessions.extend([intern(session)] * len(slots))
        self.asks.extend([row.asks] * len(slots))
        self.states.extend([row.states] * len(slots))
        self.evidence.extend([row.evidence] * len(slots))
        self.items.extend([row.item] * len(slots))

    def _append_names(self, mentions: Iterable[str], speaker: str, count: int) -> None:
        """Appends the names of an item to each of its rows."""
        numbers = [self._number(name) for name in mentions if name]
        for _ in range(count):
            self.mentions.extend(numbers)
            self.mention_ends.append(len(self.mentions))
        self.speakers.extend([self._number(speaker)] * count)

    def _number(self, name: str) -> int:
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
            self.keys.append(name_key(name))
        return number

    def speaker(self, slot: int) -> str:
        """A row's speaker; empty if it has none."""
        return self.names[self.speakers[slot]]

    def names_of(self, slot: int) -> list[str]:
        """The names of the entities that a row mentions, the speaker's among them."""
        return [self.names[number] for number in self._mentions_of(slot)]

    def mentioned(self, slot: int) -> dict[str, str]:
        """The entities that a row mentions: the name as it is written there, by its key."""
        return {
            self.keys[number]: self.names[number]
            for number in self._mentions_of(slot)
            if self.keys[number]
        }

    def _mentions_of(self, slot: int) -> array[int]:
        start = self.mention_ends[slot - 1] if slot else 0
        return self.mentions[start : self.mention_ends[slot]]

    def grown(self, capacity: int) -> Columns:
        """The same rows with a larger capacity; columns without a fixed width are shared."""
        grown, count = copy.copy(self), len(self)
        vectors = arrays.empty(capacity, self.vectors.shape[1], self.place.of(capacity))
        vectors[:count] = arrays.on_device_of(self.vectors[:count], vectors)
        grown.vectors = vectors
        grown.importance = _with_room(self.importance[:count], capacity)
        grown.numbers = _with_room(self.numbers[:count], capacity)
        grown.times = {
            name: _with_room(times[:count], capacity) for name, times in self.times.items()
        }
        return grown

    def copied(
        self, kept: Slots, end: int, capacity: int, pause: Callable[[], None] = lambda: None
    ) -> Columns:
        """A copy of the kept rows, which are ascending and below `end`, renumbered from 0.

        Safe during an `append`: rows from `end` on are not read. `pause` is called regularly, to
        yield the GIL to other threads.
        """
        result = Columns(capacity, self.vectors.shape[1], self.place)
        count = len(kept)
        for start in range(0, count, VECTORS_AT_ONCE):
            slots = arrays.on_device_of(kept[start : start + VECTORS_AT_ONCE], self.vectors)
            rows = arrays.on_device_of(self.vectors[slots], result.vectors)
            result.vectors[start : start + len(rows)] = rows
            pause()
        result.importance[:count] = self.importance[kept]
        for name, column in self.times.items():
            result.times[name][:count] = column[kept]
        result.numbers[:count] = self.numbers[kept]
        for start in range(0, count, BLOCK):
            block = kept[start : start + BLOCK].tolist()
            result.items += [self.items[slot] for slot in block]
            result.evidence += [self.evidence[slot] for slot in block]
            result.sessions += [self.sessions[slot] for slot in block]
            result.asks += bytes(self.asks[slot] for slot in block)
            result.states += [self.states[slot] for slot in block]
            for slot in block:
                result._append_names(self.names_of(slot), self.speaker(slot), 1)
            pause()
        renumbered = np.full(end, -1, np.int64)
        renumbered[kept] = np.arange(count)
        result.postings.update(self._postings_of(renumbered, pause))
        result.rests_on = _renumbered(as_table(self.rests_on, RESTS_ON_WIDTH), renumbered)
        result.closings = _renumbered(as_table(self.closings, CLOSING_WIDTH), renumbered)
        result.latest_event = int(result.times["event_time"][:count].max(initial=BEFORE_ALL))
        return result

    def _postings_of(
        self, renumbered: Slots, pause: Callable[[], None]
    ) -> Iterator[tuple[str, array[int]]]:
        """The postings of the kept rows, under their new numbers."""
        # A list of the terms alone: as many live pairs would trigger a full garbage collection,
        # which stops every thread for 0.1 s and more.
        for number, term in enumerate(list(self.postings)):
            if number % TERMS_AT_ONCE == TERMS_AT_ONCE - 1:
                pause()
            slots = as_numpy(self.postings[term])
            slots = renumbered[slots[slots < len(renumbered)]]
            if (slots := slots[slots >= 0]).size:
                yield term, array("q", slots.tobytes())


def only_stands_for(key: str) -> str:
    """The term of rows that stand for an entity without mentioning it.

    The filter's term of an entity has those rows too. No filter asks for this term.
    """
    return f"i:{key}"


def _instants(rows: Sequence[IndexRow], name: str, missing: int) -> list[int]:
    """One time of each row, in microseconds."""
    instants: Iterable[datetime | None] = map(attrgetter(name), rows)
    return [missing if instant is None else microseconds(instant) for instant in instants]


def _with_room(values: Column, capacity: int) -> Column:
    room = np.zeros(capacity, values.dtype)
    room[: len(values)] = values
    return room


def as_numpy(growing: array[int]) -> Slots:
    """A copy of the numbers: int64 (n,)."""
    # Through bytes: NumPy must not hold the buffer of an array that may grow.
    return np.frombuffer(growing.tobytes(), np.int64)


def as_table(growing: array[int], width: int) -> NDArray[np.int64]:
    """A copy of the numbers as a table whose first column is a row: int64 (n, width)."""
    return as_numpy(growing).reshape(-1, width)


def _renumbered(table: NDArray[np.int64], renumbered: Slots) -> array[int]:
    """The table with new row numbers, without lines whose new number is -1."""
    table = table[table[:, 0] < len(renumbered)]
    moved = np.column_stack([renumbered[table[:, 0]], table[:, 1:]])
    return array("q", moved[moved[:, 0] >= 0].tobytes())


def among(numbers: Slots, highest: int) -> Mask:
    """Whether each number below `highest` is one of these: bool (highest,)."""
    wanted = np.zeros(highest, np.bool_)
    wanted[numbers] = True
    return wanted
