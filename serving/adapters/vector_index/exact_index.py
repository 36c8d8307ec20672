"""The exact tier of the vector index: every vector is read, so nothing is ever missed.

A tenant has two shelves, one of segments and one of facts, and a third of segments without
vectors, by which filters choose among facts that rest on them. A shelf keeps one row per
vector in the order of arrival: the vectors as float16 and, beside them, columns of
what filters and clocks ask for. A search scans the rows that are allowed in
float16 and scores the head again in float32.

A change never touches what a search may be reading: rows are appended behind those in
use, the array of living rows is replaced, and then a new view is published. So
searches need no lock and may run in other threads while the one writer works.

Measured at 384 dimensions, one thread, float16 (float32): 600 rows 0.03 (0.02) ms, 10,000
0.33 (0.54), 100,000 6.6 (12). Float16 is off by 1e-4 at most; bfloat16 by 2e-3 at the
same speed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import torch

from serving.adapters.vector_index.columns import Numbers
from serving.adapters.vector_index.exact_scan import nearest
from serving.adapters.vector_index.memory import Memory
from serving.adapters.vector_index.shelf import Shelf
from serving.domain.query import Scope
from serving.domain.ranking import Candidate
from serving.domain.records import ItemId, ItemKind, TenantName
from serving.ports import IndexRow, Neighbours, Vector

NO_VECTOR = np.empty((1, 0), np.float16)
"""The one row of a segment that has none."""


class _Shelves:
    """All rows of a tenant."""

    def __init__(self, dimension: int, device: torch.device) -> None:
        self._numbers = Numbers()
        self._found = {kind: Shelf(dimension, device, self._numbers) for kind in ItemKind}
        self._witnesses = Shelf(0, device, self._numbers)

    def change(self, rows: Sequence[IndexRow], removed: Sequence[ItemId]) -> None:
        """Puts each row on its shelf, and takes what is gone, or moved, off the others."""
        witnesses = [replace(row, vectors=NO_VECTOR) for row in rows if not len(row.vectors)]
        self._witnesses.change(witnesses, [*removed, *(row.item for row in rows)])
        for kind, shelf in self._found.items():
            shelf.change(
                [row for row in rows if row.item.kind is kind],
                [item for item in removed if item.kind is kind],
            )

    @property
    def empty(self) -> bool:
        """Whether nothing is found by it, and nothing chosen."""
        return not (self._witnesses.slots or any(shelf.slots for shelf in self._found.values()))

    def hold(self, item: ItemId) -> bool:
        """Whether the item has a row."""
        return item in self._found[item.kind].slots or item in self._witnesses.slots

    def memory(self) -> Memory:
        """What searches see from now on."""
        segments, facts = self._found[ItemKind.SEGMENT], self._found[ItemKind.FACT]
        return Memory(
            segments=segments.view,
            facts=facts.view,
            witnesses=self._witnesses.view,
            segment_slots=segments.slots,
            witness_slots=self._witnesses.slots,
            numbers=self._numbers,
            number_count=len(self._numbers),
        )


class ExactIndex:
    """An `IndexEngine` that reads every allowed vector.

    Args:
        dimension: Of all vectors.
        device: Where the vectors are kept and scanned, as torch names it. Filters are
            worked out on the host.
    """

    def __init__(self, dimension: int, *, device: str = "cpu") -> None:
        self._dimension = dimension
        self._device = torch.device(device)
        self._shelves: dict[TenantName, _Shelves] = {}
        self._memories: dict[TenantName, Memory] = {}

    def apply(self, rows: Sequence[IndexRow], removed: Sequence[tuple[TenantName, ItemId]]) -> None:
        """Puts rows in the place of those of the same name, and removes others.

        Raises:
            ValueError: A row's vectors have another dimension; nothing was changed.
        """
        for row in rows:
            if len(row.vectors):
                self._check_dimension(row.vectors.shape[-1])
        rows_of: defaultdict[TenantName, list[IndexRow]] = defaultdict(list)
        for row in rows:
            rows_of[row.tenant].append(row)
        gone_from: defaultdict[TenantName, list[ItemId]] = defaultdict(list)
        for tenant, item in removed:
            gone_from[tenant].append(item)
        for tenant in rows_of.keys() | gone_from.keys():
            self._change(tenant, rows_of[tenant], gone_from[tenant])

    def _change(
        self, tenant: TenantName, rows: Sequence[IndexRow], removed: Sequence[ItemId]
    ) -> None:
        shelves = self._shelves.get(tenant) or _Shelves(self._dimension, self._device)
        shelves.change(rows, removed)
        if shelves.empty:
            self._shelves.pop(tenant, None)
            self._memories.pop(tenant, None)
            return
        self._shelves[tenant] = shelves
        self._memories[tenant] = shelves.memory()

    def search(
        self,
        vector: Vector,
        kind: ItemKind,
        scope: Scope,
        depth: int,
        only: Collection[ItemId] | None = None,
    ) -> Neighbours:
        """Finds the `depth` nearest items that the scope accepts, of all or only of these.

        Raises:
            ValueError: `vector` has another dimension than the index.
        """
        self._check_dimension(len(vector))
        memory = self._memories.get(scope.tenant)
        if memory is None:
            return Neighbours([])
        query = torch.tensor(vector, dtype=torch.float32, device=self._device)
        found = nearest(memory.view(kind), memory.allowed(kind, scope, only), query, depth)
        evidence: dict[str, tuple[str, ...]] = {}
        if kind is ItemKind.FACT:
            segments = memory.evidence_of([row for _, _, row in found], scope)
            evidence = {item.id: ids for (_, item, _), ids in zip(found, segments, strict=True)}
        return Neighbours([Candidate(item, score) for score, item, _ in found], evidence)

    def scan_size(self, tenant: TenantName, kind: ItemKind) -> int:
        """How many vectors a search of the tenant reads at most."""
        memory = self._memories.get(tenant)
        return 0 if memory is None else memory.view(kind).count

    def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items it holds."""
        shelves = self._shelves.get(tenant)
        return 0 if shelves is None else sum(shelves.hold(item) for item in set(items))

    @property
    def vector_count(self) -> int:
        """How many vectors it holds."""
        memories = list(self._memories.values())
        return sum(int(m.segments.alive.sum() + m.facts.alive.sum()) for m in memories)

    def _check_dimension(self, dimension: int) -> None:
        if dimension != self._dimension:
            raise ValueError(f"vectors must have {self._dimension} dimensions, got {dimension}")
