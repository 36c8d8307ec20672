"""The tiered index: an exact scan while rows are few, inverted lists when they are many.

Each kind of each tenant is a partition with lists of its own, so no search probes, scores or
returns a row of another tenant. Searches take no lock: they read an immutable view. `maintain`
builds replacements (`rule.py` says when), applies what was written meanwhile and swaps them in
under the write lock.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from serving.adapters.vector_index import arrays
from serving.adapters.vector_index.lists.inverted_lists import (
    ListsLibrary,
    OutOfMemoryError,
    TrainedLists,
)
from serving.adapters.vector_index.rebuild import RebuildProgress, StoppedError, rebuilt
from serving.adapters.vector_index.rows.partition import Partition
from serving.adapters.vector_index.rows.tenant_rows import PartitionName, TenantRows
from serving.adapters.vector_index.rule import IndexRule, RebuildReason, planned_bytes
from serving.ports.vector_index import IndexTier

logger = logging.getLogger(__name__)

FEW_CHANGES = 64
"""Up to this many changes are applied to a rebuilt partition under the write lock."""

EXTENDED_AT_ONCE = 1024

PAUSE_AFTER_FAILURE_S = 600.0

CGROUP = Path("/sys/fs/cgroup")


def free_bytes() -> int:
    """The free memory of the machine or of the container, whichever is less.

    Where memory is overcommitted, exceeding it kills the process instead of raising an error.
    """
    available = int(psutil.virtual_memory().available)
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text())
    except (OSError, ValueError):
        return available
    return available if limit == "max" else max(0, min(available, int(limit) - used))


class _FailedRebuild(NamedTuple):
    """A rebuild that failed: when, and what did not fit, or the type of the error."""

    at_s: float
    what: str


class TieredIndex(TenantRows):
    """An `IndexEngine` that scans small partitions and puts large ones into inverted lists.

    The library trains lists on `device`. `memory` returns the free bytes of the host; a GPU's own
    allocator rejects what does not fit.
    """

    def __init__(
        self,
        dimension: int,
        library: ListsLibrary,
        rule: IndexRule,
        *,
        device: str = "cpu",
        clock: Callable[[], float] = time.monotonic,
        memory: Callable[[], int] = free_bytes,
    ) -> None:
        super().__init__(
            dimension,
            device=device,
            max_scanned_rows=rule.max_scanned_rows,
            host_rows=rule.host_rows,
        )
        self._library = library
        self._rule = rule
        self._clock = clock
        self._memory = memory
        self._closed = False
        self._building: dict[PartitionName, RebuildProgress] = {}
        self._failed: dict[PartitionName, _FailedRebuild] = {}
        self._full: weakref.WeakSet[Partition] = weakref.WeakSet()

    def tier(self, name: PartitionName, partition: Partition) -> IndexTier:
        building, failed = self._building.get(name), self._failed.get(name)
        return replace(
            super().tier(name, partition),
            rebuilding=str(building) if building is not None else "",
            failure=failed.what if failed is not None else "",
        )

    # ------------------------------------------------------------ maintenance

    def maintain(self) -> None:
        """Extends and rebuilds the lists of each partition where that is due."""
        for name, partition in self.partitions():
            if self._closed:
                return
            self._extend_if_due(name, partition)
            self._rebuild_if_due(name, partition)

    def close(self) -> None:
        with self.writing:
            self._closed = True
        for progress in list(self._building.values()):
            progress.stopped = True

    # ------------------------------------------------------------ the tail

    def _extend_if_due(self, name: PartitionName, partition: Partition) -> None:
        view = partition.view
        trained = view.trained
        if trained is None or partition in self._full:
            return
        if not self._rule.is_tail_full(view.tail, trained.lists.n_lists):
            return
        try:
            while not self._closed and partition.view.covered < view.count:
                self._extend(name, partition, trained)
        except OutOfMemoryError as error:
            # Rows that were added but are not yet covered are still found in the tail.
            self._full.add(partition)
            logger.warning("index lists not extended", extra={"reason": str(error)})

    def _extend(self, name: PartitionName, partition: Partition, trained: TrainedLists) -> None:
        """Moves the first rows of the tail into the lists."""
        view = partition.view
        end = min(view.count, view.covered + EXTENDED_AT_ONCE)
        slots = np.flatnonzero(view.alive[view.covered : end]) + view.covered
        chosen = arrays.on_device_of(slots, view.vectors)
        trained.lists.extend(view.vectors[chosen], chosen)
        with self.writing:
            partition.cover(end)
            if self.has(name, partition):
                self.publish(name[0])

    # ------------------------------------------------------------ rebuilds

    def _rebuild_if_due(self, name: PartitionName, partition: Partition) -> None:
        view = partition.view
        reason = self._rule.rebuild_reason(
            view.alive_count,
            view.count - view.alive_count,
            view.trained.rows if view.trained is not None else None,
            full=partition in self._full,
        )
        failed = self._failed.get(name)
        pauses = failed is not None and self._clock() - failed.at_s < PAUSE_AFTER_FAILURE_S
        if reason is not None and not pauses:
            self._rebuild(name, partition, view.alive_count, reason)

    def _rebuild(
        self, name: PartitionName, partition: Partition, rows: int, reason: RebuildReason
    ) -> None:
        n_lists = 0 if reason == "shrunk" else self._rule.n_lists(rows)
        progress = self._building[name] = RebuildProgress(stopped=self._closed)
        try:
            self._require_memory(rows, n_lists, reason)
            self._swap_in(name, partition, n_lists, progress)
        except StoppedError:
            logger.info("index rebuild stopped")
        except OutOfMemoryError as error:
            self._failed[name] = _FailedRebuild(self._clock(), str(error))
            logger.warning("index not rebuilt", extra={"reason": str(error)})
        except Exception as error:
            if arrays.is_device_error(error):
                # Left to the owner of the process.
                raise
            # The partition in use is untouched, so the next rebuild starts from the same state.
            self._failed[name] = _FailedRebuild(self._clock(), type(error).__name__)
            logger.exception("index rebuild failed")
        else:
            self._failed.pop(name, None)
        finally:
            del self._building[name]
            with self.writing:
                partition.stop_journal()

    def _require_memory(self, rows: int, n_lists: int, reason: RebuildReason) -> None:
        needed = planned_bytes(rows, self.dimension, in_lists=n_lists > 0)
        left = self._memory()
        logger.info(
            "index rebuild planned",
            extra={
                "reason": reason,
                "rows": rows,
                "n_lists": n_lists,
                "planned_bytes": needed,
                "free_bytes": left,
            },
        )
        if self.device == arrays.HOST and needed > left:
            raise OutOfMemoryError(f"{rows:,} rows in {needed:,} bytes, of which {left:,} are left")

    def _swap_in(
        self, name: PartitionName, partition: Partition, n_lists: int, progress: RebuildProgress
    ) -> None:
        """Rebuilds the partition, applies what was written meanwhile, and swaps it in."""
        with self.writing:
            view = partition.start_journal()
        replacement = rebuilt(self._library, view, partition.numbers, n_lists, progress)
        progress.enter("applying changes")
        while True:
            with self.writing:
                change = partition.drain_journal()
                if change.size <= FEW_CHANGES:
                    replacement.change(change)
                    # Unless the old one is gone.
                    if not self._closed and self.has(name, partition):
                        self.swap(name, replacement)
                        swapped = {"generation": self.generation, "rows": replacement.view.count}
                        logger.info("index partition swapped", extra=swapped)
                    return
            replacement.change(change)
            progress.pause()
