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

from collections.abc import Sequence
from pathlib import Path

from serving.adapters.vector_index.exact_scan import nearest
from serving.adapters.vector_index.stored_rows import load, save
from serving.adapters.vector_index.tenants import Tenants
from serving.adapters.vector_index.tiers import exact_tier
from serving.domain.records import ItemId, ItemKind, TenantName
from serving.ports import IndexRow, IndexTier, Neighbours, VectorLike, WantedNeighbours


class ExactIndex:
    """An `IndexEngine` that reads every allowed vector.

    Args:
        dimension: Of all vectors.
        device: Where the vectors are kept and scanned, as torch names it. Filters are
            worked out on the host.
    """

    def __init__(self, dimension: int, *, device: str = "cpu") -> None:
        self._tenants = Tenants(dimension, device)

    def apply(self, rows: Sequence[IndexRow], removed: Sequence[tuple[TenantName, ItemId]]) -> None:
        """Puts rows in the place of those of the same name, and removes others.

        Raises:
            ValueError: A row's vectors have another dimension; nothing was changed.
            UnsoundRowsError: One of them is zero or not finite; nothing was changed.
        """
        self._tenants.apply(rows, removed)

    def search(self, vector: VectorLike, wanted: WantedNeighbours) -> Neighbours:
        """Finds the wanted neighbours of a vector.

        Raises:
            ValueError: `vector` has another dimension, or is zero or not finite.
        """
        return self._tenants.search(nearest, vector, wanted)

    def scan_size(self, tenant: TenantName, kind: ItemKind) -> int:
        """How many vectors a search of the tenant reads at most."""
        return self._tenants.scan_size(tenant, kind)

    def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items it holds."""
        return self._tenants.count(tenant, items)

    def save(self, folder: Path) -> None:
        """Writes all rows into an empty folder; changes may go on meanwhile.

        Raises:
            OSError: The files cannot be written.
        """
        save(self._tenants.memories(), library="", folder=folder)

    def restore(self, folder: Path) -> None:
        """Takes over the rows that were saved, in the place of what there is.

        Raises:
            DamagedSnapshotError: The files are cut short, changed or of another form.
        """
        tenants = self._tenants
        tenants.restore(load(folder, tenants.dimension, tenants.device, library=None, now_s=0.0))

    @property
    def vector_count(self) -> int:
        """How many vectors it holds."""
        return self._tenants.vector_count

    @property
    def generation(self) -> int:
        """Always 0: its rows keep their shape."""
        return self._tenants.generation

    def tiers(self, tenant: TenantName | None = None) -> list[IndexTier]:
        """How rows are searched: those of one tenant, or of all."""
        return [
            exact_tier(kind, shelf.view, self._tenants.dimension)
            for (owner, kind), shelf in self._tenants.shelves()
            if tenant is None or owner == tenant
        ]

    def maintain(self) -> None:
        """Does nothing: nothing is ever due."""

    def close(self) -> None:
        """Does nothing: there is no maintenance to end."""
