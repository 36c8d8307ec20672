"""The tiered vector index: an exact scan while rows are few, inverted lists when they are many.

Each kind of each tenant is a partition with lists of its own, so no search probes, scores or
returns a row of another tenant. Searches take no lock: they read an immutable view. `maintain`
builds replacements beside them (docs/index.md describes when), applies what was written meanwhile
and swaps them in under the write lock.
"""

from __future__ import annotations

import logging
import queue
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

import numpy as np

from serving.adapters.vector_index import arrays
from serving.adapters.vector_index.arrays import Array
from serving.adapters.vector_index.host_memory import free_bytes
from serving.adapters.vector_index.list_search import nearest_in_lists
from serving.adapters.vector_index.lists.errors import ListsDeviceLostError, OutOfMemoryError
from serving.adapters.vector_index.lists.inverted_lists import InvertedLists, ListsLibrary
from serving.adapters.vector_index.lists.trained import TrainedLists, list_skew
from serving.adapters.vector_index.rebuild import Rebuild, RebuildProgress, StoppedError
from serving.adapters.vector_index.rows.allowed_rows import AllowedRows
from serving.adapters.vector_index.rows.exact_scan import ScoredRow
from serving.adapters.vector_index.rows.partition import Partition, RecordedQuery
from serving.adapters.vector_index.rows.stored_rows import load, save
from serving.adapters.vector_index.rows.tenant_rows import PartitionName, TenantRows
from serving.adapters.vector_index.rows.view import PartitionView
from serving.adapters.vector_index.tiers import tier_of
from serving.adapters.vector_index.tuning.audit import MOST_AUDITED, audited_recall
from serving.adapters.vector_index.tuning.costs import MemoryPlan
from serving.adapters.vector_index.tuning.policy import (
    FailedBuild,
    IndexPolicy,
    RebuildReason,
    TierState,
)
from serving.domain.items.records import TenantName
from serving.ports.embedding import VectorLike
from serving.ports.index_engine import Neighbours
from serving.ports.vector_index import IndexTier, WantedNeighbours

logger = logging.getLogger(__name__)

FEW_CHANGES = 64
"""Up to this many changes are applied to a rebuilt partition under the write lock."""

EXTENDED_AT_ONCE = 1024

AUDIT_EVERY_S = 600.0


@dataclass(slots=True)
class _MaintenanceState:
    """What `maintain` remembers of a partition between two calls."""

    recall: float | None = None
    audited_at: float = float("-inf")
    full: bool = False


class TieredIndex(TenantRows):
    """An `IndexEngine` that scans small partitions and puts large ones into inverted lists.

    Args:
        dimension: Of all vectors.
        library: Trains lists on `device`.
        policy: The thresholds.
        device: Where the vectors are stored, as torch names it.
        measure: Measures `policy.exact_max_rows` on this machine; called once, when the number
            of rows first exceeds the configured value.
        audit_every_s: The interval between recall measurements with recorded queries.
        clock: Monotonic seconds.
        memory: The free bytes where vectors are stored.
        needs: The bytes that a rebuild requires.
        seed: Of random choices.
    """

    def __init__(
        self,
        dimension: int,
        library: ListsLibrary,
        policy: IndexPolicy,
        *,
        device: str = "cpu",
        measure: Callable[[], int] | None = None,
        audit_every_s: float = AUDIT_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
        memory: Callable[[], int] = free_bytes,
        needs: Callable[[MemoryPlan], int] = attrgetter("total_bytes"),
        seed: int = 0,
    ) -> None:
        super().__init__(dimension, device)
        self._library = library
        self._policy = policy
        self._measure = measure
        self._audit_every_s = audit_every_s
        self._clock = clock
        self._memory = memory
        self._needs = needs
        self._seed = seed
        self._closed = False
        self._building: dict[PartitionName, RebuildProgress] = {}
        self._failed: dict[PartitionName, FailedBuild] = {}
        self._states: weakref.WeakKeyDictionary[Partition, _MaintenanceState] = (
            weakref.WeakKeyDictionary()
        )
        self._unused: queue.SimpleQueue[InvertedLists] = queue.SimpleQueue()

    def search(self, vector: VectorLike, wanted: WantedNeighbours) -> Neighbours:
        """Searches; see `IndexEngine.search`. Queries of partitions in lists are recorded.

        Raises:
            ValueError: `vector` has another dimension, or is zero or not finite.
            ListsError: The library failed.
        """
        found = self.find(self._nearest, vector, wanted)
        partition = self.partition(wanted.scope.tenant, wanted.kind)
        if partition is not None and partition.view.trained is not None:
            partition.recent_queries.append(RecordedQuery(vector, wanted.depth))
        return found

    def _nearest(
        self, view: PartitionView, allowed: AllowedRows, vector: Array, depth: int
    ) -> list[ScoredRow]:
        return nearest_in_lists(view, allowed, vector, depth, self._policy)

    # ------------------------------------------------------------ files

    def save(self, folder: Path) -> None:
        """Writes rows and lists; see `IndexEngine.save`.

        Must be called on the thread that calls `maintain`, so that no lists change.

        Raises:
            OSError: The files cannot be written.
            ListsError: The library failed.
        """
        save(self.views(), self._library.name, folder)

    def restore(self, folder: Path) -> None:
        """Replaces all rows; see `IndexEngine.restore`.

        Lists of another library or library version are ignored; `maintain` rebuilds them.
        """
        stored = load(folder, self.dimension, self.device, self._library, self._clock())
        self.replace_all(stored)
        for _, partition in self.partitions():
            self._close_when_unused(partition.view.trained)

    # ------------------------------------------------------------ state

    def tiers(self, tenant: TenantName | None = None) -> list[IndexTier]:
        return [
            self._tier(name, partition)
            for name, partition in self.partitions()
            if tenant is None or name[0] == tenant
        ]

    def _tier(self, name: PartitionName, partition: Partition) -> IndexTier:
        audited = self._states.get(partition, _MaintenanceState()).recall
        building, failed = self._building.get(name), self._failed.get(name)
        return replace(
            tier_of(name[1], partition.view, self.dimension, self._policy.recall_target, audited),
            rebuilding=str(building) if building is not None else "",
            failure=failed.what if failed is not None else "",
        )

    # ------------------------------------------------------------ maintenance

    def maintain(self) -> None:
        """Extends, audits and rebuilds each partition where that is due."""
        self._close_unused()
        for name, partition in self.partitions():
            if self._closed:
                return
            view = partition.view
            if view.trained is not None or view.count > self._policy.exact_max_rows:
                self._maintain(name, partition)

    def close(self) -> None:
        with self.writing:
            self._closed = True
        for progress in list(self._building.values()):
            progress.stopped = True

    def _maintain(self, name: PartitionName, partition: Partition) -> None:
        state = self._states.setdefault(partition, _MaintenanceState())
        self._extend_if_due(name, partition, state)
        self._audit_if_due(partition, state)
        tier = self._tier_state(partition.view, state)
        self._measure_if_due(tier)
        reason = self._policy.rebuild_reason(tier)
        failed = self._failed.get(name)
        if reason is None or (failed is not None and failed.bars(tier.alive, self._clock())):
            return
        self._rebuild(name, partition, tier.alive, reason)

    def _tier_state(self, view: PartitionView, state: _MaintenanceState) -> TierState:
        tier = TierState(alive=view.alive_count, dead=view.count - view.alive_count)
        if (trained := view.trained) is None:
            return tier
        return replace(
            tier,
            trained_rows=trained.rows,
            skew=list_skew(trained.lists.list_sizes().tolist()),
            trained_skew=trained.skew,
            age_s=self._clock() - trained.at_s,
            audited_recall=state.recall,
            full=state.full,
        )

    def _measure_if_due(self, tier: TierState) -> None:
        if self._measure is None or tier.alive <= self._policy.exact_max_rows:
            return
        measure, self._measure = self._measure, None
        try:
            rows = measure()
        except OutOfMemoryError as error:
            logger.warning("index threshold not measured", extra={"reason": str(error)})
            return
        self._policy = replace(self._policy, exact_max_rows=rows)
        logger.info("index threshold measured", extra={"exact_max_rows": rows})

    # ------------------------------------------------------------ the tail

    def _extend_if_due(
        self, name: PartitionName, partition: Partition, state: _MaintenanceState
    ) -> None:
        view = partition.view
        trained = view.trained
        if trained is None or state.full:
            return
        if view.tail < self._policy.tail_limit(trained.lists.n_lists):
            return
        try:
            while not self._closed and partition.view.covered < view.count:
                self._extend(name, partition, trained)
        except OutOfMemoryError as error:
            # Rows that were added but are not yet covered are still found in the tail.
            state.full = True
            logger.warning("index lists not extended", extra={"reason": str(error)})

    def _extend(self, name: PartitionName, partition: Partition, trained: TrainedLists) -> None:
        """Moves the first rows of the tail into the lists."""
        view = partition.view
        end = min(view.count, view.covered + EXTENDED_AT_ONCE)
        slots = np.flatnonzero(view.alive[view.covered : end]) + view.covered
        chosen = arrays.beside(slots, view.vectors)
        trained.lists.extend(view.vectors[chosen], chosen)
        with self.writing:
            partition.cover(end)
            if self.has(name, partition):
                self.publish(name[0])

    # ------------------------------------------------------------ recall

    def _audit_if_due(self, partition: Partition, state: _MaintenanceState) -> None:
        view, now = partition.view, self._clock()
        queries = list(partition.recent_queries)[-MOST_AUDITED:]
        if view.trained is None or not queries or now < state.audited_at + self._audit_every_s:
            return
        state.audited_at = now
        state.recall = audited_recall(self._nearest, view, queries)

    # ------------------------------------------------------------ rebuilds

    def _rebuild(
        self, name: PartitionName, partition: Partition, rows: int, reason: RebuildReason
    ) -> None:
        n_lists = 0 if reason == "shrunk" else self._policy.n_lists(rows)
        progress = self._building[name] = RebuildProgress(stopped=self._closed)
        try:
            self._require_memory(rows, n_lists, reason)
            self._swap_in(name, partition, n_lists, progress)
        except StoppedError:
            logger.info("index rebuild stopped")
        except OutOfMemoryError as error:
            self._failed[name] = FailedBuild(rows, self._clock(), str(error))
            logger.warning("index not rebuilt", extra={"reason": str(error)})
        except ListsDeviceLostError:
            # Left to the owner of the process.
            raise
        except Exception as error:
            if arrays.is_device_error(error):
                raise
            # The partition in use is untouched, so the next rebuild starts from the same state.
            self._failed[name] = FailedBuild(rows, self._clock(), type(error).__name__)
            logger.exception("index rebuild failed")
        else:
            self._failed.pop(name, None)
        finally:
            del self._building[name]
            with self.writing:
                partition.stop_journal()

    def _require_memory(self, rows: int, n_lists: int, reason: RebuildReason) -> None:
        plan = MemoryPlan(rows=rows, dimension=self.dimension, n_lists=n_lists)
        left = self._memory()
        logger.info(
            "index rebuild planned",
            extra={
                "reason": reason,
                "rows": rows,
                "n_lists": n_lists,
                "store_bytes": plan.store_bytes,
                "lists_bytes": plan.lists_bytes,
                "free_bytes": left,
            },
        )
        if (needed := self._needs(plan)) > left:
            raise OutOfMemoryError(f"{rows:,} rows in {needed:,} bytes, of which {left:,} are left")

    def _swap_in(
        self, name: PartitionName, partition: Partition, n_lists: int, progress: RebuildProgress
    ) -> None:
        """Rebuilds the partition, applies what was written meanwhile, and swaps it in."""
        rebuild = Rebuild(
            library=self._library, policy=self._policy, seed=self._seed, clock=self._clock
        )
        with self.writing:
            view = partition.start_journal()
        queries = list(partition.recent_queries)
        rebuilt = rebuild.run(view, partition.numbers, queries, n_lists, progress)
        self._close_when_unused(rebuilt.view.trained)
        progress.enter("applying changes")
        while True:
            with self.writing:
                change = partition.drain_journal()
                if change.size <= FEW_CHANGES:
                    rebuilt.change(change)
                    self._swap_if_current(name, partition, rebuilt)
                    return
            rebuilt.change(change)
            progress.pause()

    def _swap_if_current(
        self, name: PartitionName, partition: Partition, rebuilt: Partition
    ) -> None:
        """Swaps the rebuilt partition in, unless the old one is gone; `writing` is held."""
        if self._closed or not self.has(name, partition):
            return
        rebuilt.recent_queries = partition.recent_queries
        self.swap(name, rebuilt)
        logger.info(
            "index partition swapped",
            extra={"generation": self.generation, "rows": rebuilt.view.count},
        )

    def _close_when_unused(self, trained: TrainedLists | None) -> None:
        if trained is not None:
            # The last search releases them; `maintain` closes them, not the search.
            finalizer = weakref.finalize(trained, self._unused.put, trained.lists)
            finalizer.atexit = False

    def _close_unused(self) -> None:
        while True:
            try:
                self._unused.get_nowait().close()
            except queue.Empty:
                return
