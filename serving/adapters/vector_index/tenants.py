"""The rows of all tenants: how they change, under one lock, and what a search sees of them."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from serving.adapters.vector_index.allowed import Allowed
from serving.adapters.vector_index.columns import Numbers
from serving.adapters.vector_index.exact_scan import Found
from serving.adapters.vector_index.memory import Memory
from serving.adapters.vector_index.shelf import Change, Shelf
from serving.adapters.vector_index.stored_rows import SHELVES, StoredTenant
from serving.adapters.vector_index.view import View
from serving.domain.ranking import Candidate
from serving.domain.records import ItemId, ItemKind, TenantName
from serving.models.device_vector import DeviceVector, tensor_of
from serving.ports import IndexRow, Neighbours, UnsoundRowsError, VectorLike, WantedNeighbours

Nearest = Callable[[View, Allowed, torch.Tensor, int], list[Found]]
"""Finds the nearest items among the allowed rows of a view."""

Name = tuple[TenantName, ItemKind]
"""Of a shelf."""


NO_VECTOR = np.empty((1, 0), np.float16)
"""The one row of a segment that has none."""


class _Shelves:
    """All rows of a tenant: what is found, by kind, and the segments that have no vectors.

    Filters choose by those among the facts that rest on them.
    """

    def __init__(self, dimension: int, device: torch.device) -> None:
        self.numbers = Numbers()
        self.of_kind = {kind: Shelf.empty(dimension, device, self.numbers) for kind in ItemKind}
        self.witnesses = Shelf.empty(0, device, self.numbers)

    def restore(self, stored: StoredTenant) -> None:
        """Takes over what was stored."""
        self.numbers = stored.numbers
        segments, facts, self.witnesses = (stored.shelves[name] for name in SHELVES)
        self.of_kind = {ItemKind.SEGMENT: segments, ItemKind.FACT: facts}

    def change(self, change: Change) -> None:
        """Puts each row on its shelf, and takes what is gone, or has moved, off the other."""
        witnesses = [replace(row, vectors=NO_VECTOR) for row in change.rows if not len(row.vectors)]
        self.witnesses.change(Change(witnesses, change.names))
        for kind, shelf in self.of_kind.items():
            shelf.change(
                Change(
                    [row for row in change.rows if row.item.kind is kind],
                    [item for item in change.removed if item.kind is kind],
                )
            )

    @property
    def are_empty(self) -> bool:
        """Whether the tenant has no rows."""
        return not any(shelf.slots for shelf in (self.witnesses, *self.of_kind.values()))

    def hold(self, item: ItemId) -> bool:
        """Whether the item has a row."""
        return item in self.of_kind[item.kind].slots or item in self.witnesses.slots

    def memory(self, generation: int) -> Memory:
        """What searches see of them as they are."""
        segments, facts = self.of_kind[ItemKind.SEGMENT], self.of_kind[ItemKind.FACT]
        return Memory(
            segments=segments.view,
            facts=facts.view,
            witnesses=self.witnesses.view,
            segment_slots=segments.slots,
            witness_slots=self.witnesses.slots,
            numbers=self.numbers,
            number_count=len(self.numbers),
            generation=generation,
        )


class Tenants:
    """The shelves of each tenant, and what was published of them last.

    Searches read what is published, without a lock. Whoever publishes holds `writing`.

    Args:
        dimension: Of all vectors.
        device: Where the vectors are kept and scanned, as torch names it. Filters are
            worked out on the host.
    """

    def __init__(self, dimension: int, device: str) -> None:
        self.dimension = dimension
        self.device = torch.device(device)
        self.writing = threading.Lock()
        self.generation = 0
        self._shelves: dict[TenantName, _Shelves] = {}
        self._memories: dict[TenantName, Memory] = {}

    # ------------------------------------------------------------ changing

    def apply(self, rows: Sequence[IndexRow], removed: Sequence[tuple[TenantName, ItemId]]) -> None:
        """Puts rows in the place of those of the same name, and removes others.

        Of rows of one name the last counts.

        Raises:
            ValueError: A row's vectors have another dimension; nothing was changed.
            UnsoundRowsError: One of them is zero or not finite; nothing was changed.
        """
        self._check_rows([row for row in rows if len(row.vectors)])
        rows_of: defaultdict[TenantName, dict[ItemId, IndexRow]] = defaultdict(dict)
        for row in rows:
            rows_of[row.tenant][row.item] = row
        gone_from: defaultdict[TenantName, list[ItemId]] = defaultdict(list)
        for tenant, item in removed:
            gone_from[tenant].append(item)
        with self.writing:
            for tenant in rows_of.keys() | gone_from.keys():
                self._change(tenant, Change([*rows_of[tenant].values()], gone_from[tenant]))

    def _change(self, tenant: TenantName, change: Change) -> None:
        shelves = self._shelves.get(tenant) or _Shelves(self.dimension, self.device)
        shelves.change(change)
        if shelves.are_empty:
            self._shelves.pop(tenant, None)
            self._memories.pop(tenant, None)
            return
        self._shelves[tenant] = shelves
        self.publish(tenant)

    def publish(self, tenant: TenantName) -> None:
        """Shows searches the shelves of a tenant as they are; `writing` is held."""
        self._memories[tenant] = self._shelves[tenant].memory(self.generation)

    def memories(self) -> dict[TenantName, Memory]:
        """What searches see of each tenant."""
        with self.writing:
            return dict(self._memories)

    def restore(self, stored: Iterable[StoredTenant]) -> None:
        """Takes over what was stored, in the place of what there is."""
        restored = {each.tenant: each for each in stored}
        with self.writing:
            self._shelves.clear()
            self._memories.clear()
            for tenant, each in restored.items():
                shelves = self._shelves[tenant] = _Shelves(self.dimension, self.device)
                shelves.restore(each)
                self.publish(tenant)

    def has(self, name: Name, shelf: Shelf) -> bool:
        """Whether the shelf is still in its place; `writing` is held."""
        return self.shelf(*name) is shelf

    def shelf(self, tenant: TenantName, kind: ItemKind) -> Shelf | None:
        """The shelf of the tenant, if it has rows."""
        shelves = self._shelves.get(tenant)
        return None if shelves is None else shelves.of_kind[kind]

    def swap(self, name: Name, shelf: Shelf) -> None:
        """Puts a shelf in the place of the tenant's; `writing` is held."""
        tenant, kind = name
        self._shelves[tenant].of_kind[kind] = shelf
        self.generation += 1
        self.publish(tenant)

    def shelves(self) -> list[tuple[Name, Shelf]]:
        """All shelves of what can be found."""
        with self.writing:
            return [
                ((tenant, kind), shelf)
                for tenant, shelves in self._shelves.items()
                for kind, shelf in shelves.of_kind.items()
            ]

    # ------------------------------------------------------------ reading

    def search(self, nearest: Nearest, vector: VectorLike, wanted: WantedNeighbours) -> Neighbours:
        """Finds the wanted neighbours of a vector.

        Raises:
            ValueError: `vector` has another dimension, or is zero or not finite.
        """
        self._check_query(vector)
        memory = self._memories.get(wanted.scope.tenant)
        if memory is None:
            return Neighbours([], generation=self.generation)
        query = tensor_of(vector, self.device)
        found = nearest(memory.view(wanted.kind), memory.allowed(wanted), query, wanted.depth)
        evidence: dict[str, tuple[str, ...]] = {}
        if wanted.kind is ItemKind.FACT:
            segments = memory.evidence_of([each.row for each in found], wanted.scope)
            evidence = {each.item.id: ids for each, ids in zip(found, segments, strict=True)}
        candidates = [Candidate(each.item, each.score) for each in found]
        return Neighbours(candidates, evidence, memory.generation)

    def scan_size(self, tenant: TenantName, kind: ItemKind) -> int:
        """How many vectors a search of the tenant reads at most."""
        memory = self._memories.get(tenant)
        return 0 if memory is None else memory.view(kind).count

    def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items there are."""
        shelves = self._shelves.get(tenant)
        return 0 if shelves is None else sum(shelves.hold(item) for item in set(items))

    @property
    def vector_count(self) -> int:
        """How many vectors there are."""
        memories = list(self._memories.values())
        return sum(m.segments.alive_count + m.facts.alive_count for m in memories)

    # ------------------------------------------------------------ checking

    def _check_rows(self, rows: Sequence[IndexRow]) -> None:
        for row in rows:
            self._check_dimension(row.vectors.shape[-1])
        if not rows:
            return
        sound = _are_sound(np.concatenate([row.vectors for row in rows]))
        if not sound.all():
            owners = np.repeat(np.arange(len(rows)), [len(row.vectors) for row in rows])
            unsound = [rows[owner] for owner in np.unique(owners[~sound]).tolist()]
            raise UnsoundRowsError([(row.tenant, row.item) for row in unsound])

    def _check_query(self, vector: VectorLike) -> None:
        self._check_dimension(len(vector))
        if isinstance(vector, DeviceVector):
            return  # whoever made it has looked
        values = np.asarray(vector)
        if not (np.isfinite(values).all() and np.any(values)):
            raise ValueError("the vector to search for is zero or not finite")

    def _check_dimension(self, dimension: int) -> None:
        if dimension != self.dimension:
            raise ValueError(f"vectors must have {self.dimension} dimensions, got {dimension}")


def _are_sound(vectors: NDArray[np.float16]) -> NDArray[np.bool_]:
    """Whether each vector is finite and not zero: bool (n,).

    By the bits of a half: the exponent of what is not finite is all ones, and only zero has none
    beside the sign. Numpy is far slower with halves than with integers.
    """
    magnitudes = vectors.view(np.uint16) & 0x7FFF
    largest = magnitudes.max(axis=1)
    sound: NDArray[np.bool_] = (largest < 0x7C00) & (largest > 0)
    return sound
