"""The tiered vector index: rows are read exactly while they are few, and are in lists when many.

Each kind of each tenant is a partition of its own, with lists of its own, so that no search
probes, scores or shows a row of another tenant. Searches take no lock: they read a view that
never changes. `maintain` makes the next shape beside them (docs/index.md tells when) and
swaps it in under the lock of the writer, after what was written meanwhile.
"""

from __future__ import annotations

import logging
import queue
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

import numpy as np
import torch

from serving.adapters.vector_index.allowed import Allowed
from serving.adapters.vector_index.audit import MOST_AUDITED, recall_of
from serving.adapters.vector_index.errors import DeviceLostError, OutOfMemoryError
from serving.adapters.vector_index.exact_scan import Found
from serving.adapters.vector_index.host_memory import free_bytes
from serving.adapters.vector_index.inverted_lists import InvertedLists, ListsLibrary
from serving.adapters.vector_index.rebuild import Progress, Rebuild, StoppedError
from serving.adapters.vector_index.shelf import Asked, Shelf
from serving.adapters.vector_index.stored_rows import load, save
from serving.adapters.vector_index.tenants import Name, Tenants
from serving.adapters.vector_index.tiered_scan import nearest_in_tiers
from serving.adapters.vector_index.tiers import tier_of
from serving.adapters.vector_index.trained import Trained, skew_of
from serving.adapters.vector_index.view import View
from serving.domain.index_costs import MemoryPlan
from serving.domain.index_policy import FailedBuild, IndexPolicy, RebuildReason, TierState
from serving.domain.records import ItemId, ItemKind, TenantName
from serving.ports import IndexRow, IndexTier, Neighbours, VectorLike, WantedNeighbours

logger = logging.getLogger(__name__)

FEW_CHANGES = 64
"""So many are carried over while the writer waits; more of them before."""

EXTENDED_AT_ONCE = 1024

AUDIT_EVERY_S = 600.0


@dataclass(slots=True)
class _Upkeep:
    """What `maintain` remembers of a shelf's lists from one time to the next."""

    recall: float | None = None
    audited_at: float = float("-inf")
    full: bool = False


class TieredIndex:
    """An `IndexEngine` that reads few rows exactly and puts many into inverted lists.

    Args:
        dimension: Of all vectors.
        library: What makes lists, on `device`.
        policy: The thresholds.
        device: Where the vectors are kept, as torch names it.
        measure: Measures on this machine what `policy.exact_max_rows` is to be, once there
            are as many rows as it can be at least.
        audit_every_s: How often recall is measured with questions that were asked.
        clock: Tells seconds.
        memory: Tells the bytes that may still be taken where vectors are kept.
        needs: How many of them a rebuild takes.
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
        self._tenants = Tenants(dimension, device)
        self._library = library
        self._policy = policy
        self._measure = measure
        self._audit_every_s = audit_every_s
        self._clock = clock
        self._memory = memory
        self._needs = needs
        self._seed = seed
        self._closed = False
        self._building: dict[Name, Progress] = {}
        self._failed: dict[Name, FailedBuild] = {}
        self._upkeep: weakref.WeakKeyDictionary[Shelf, _Upkeep] = weakref.WeakKeyDictionary()
        self._unused: queue.SimpleQueue[InvertedLists] = queue.SimpleQueue()

    # ------------------------------------------------------------ rows

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
            ListsError: The library failed.
        """
        found = self._tenants.search(self._nearest, vector, wanted)
        shelf = self._tenants.shelf(wanted.scope.tenant, wanted.kind)
        if shelf is not None and shelf.view.trained is not None:
            shelf.asked.append(Asked(vector, wanted.depth))
        return found

    def _nearest(
        self, view: View, allowed: Allowed, vector: torch.Tensor, depth: int
    ) -> list[Found]:
        return nearest_in_tiers(view, allowed, vector, depth, self._policy)

    def scan_size(self, tenant: TenantName, kind: ItemKind) -> int:
        """How many vectors a search of the tenant reads at most."""
        return self._tenants.scan_size(tenant, kind)

    def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items it holds."""
        return self._tenants.count(tenant, items)

    @property
    def vector_count(self) -> int:
        """How many vectors it holds."""
        return self._tenants.vector_count

    @property
    def generation(self) -> int:
        """How often rows were put into another shape; does not change once it is closed."""
        return self._tenants.generation

    # ------------------------------------------------------------ files

    def save(self, folder: Path) -> None:
        """Writes all rows and lists into an empty folder; changes may go on meanwhile.

        The thread that calls `maintain` calls it, so that no lists change.

        Raises:
            OSError: The files cannot be written.
            ListsError: The library failed.
        """
        save(self._tenants.memories(), self._library.name, folder)

    def restore(self, folder: Path) -> None:
        """Takes over what was saved, in the place of what there is.

        Lists of another library, or of another version of it, are made anew by `maintain`.

        Raises:
            DamagedSnapshotError: The files are cut short, changed or of another form.
        """
        tenants = self._tenants
        stored = load(folder, tenants.dimension, tenants.device, self._library, self._clock())
        tenants.restore(stored)
        for _, shelf in tenants.shelves():
            self._close_when_unused(shelf.view.trained)

    # ------------------------------------------------------------ state

    def tiers(self, tenant: TenantName | None = None) -> list[IndexTier]:
        """How rows are searched: those of one tenant, or of all."""
        return [
            self._tier(name, shelf)
            for name, shelf in self._tenants.shelves()
            if tenant is None or name[0] == tenant
        ]

    def _tier(self, name: Name, shelf: Shelf) -> IndexTier:
        target, dimension = self._policy.recall_target, self._tenants.dimension
        audited = self._upkeep.get(shelf, _Upkeep()).recall
        building, failed = self._building.get(name), self._failed.get(name)
        return replace(
            tier_of(name[1], shelf.view, dimension, target, audited),
            rebuilding=str(building) if building is not None else "",
            failure=failed.what if failed is not None else "",
        )

    # ------------------------------------------------------------ maintenance

    def maintain(self) -> None:
        """Extends, audits and rebuilds what is due, shelf after shelf."""
        self._close_unused()
        for name, shelf in self._tenants.shelves():
            if self._closed:
                return
            if shelf.view.trained is not None or shelf.view.count > self._policy.exact_max_rows:
                self._maintain(name, shelf)

    def close(self) -> None:
        """Ends maintenance, also one under way, at the next block of rows."""
        with self._tenants.writing:
            self._closed = True
        for progress in list(self._building.values()):
            progress.stopped = True

    def _maintain(self, name: Name, shelf: Shelf) -> None:
        upkeep = self._upkeep.setdefault(shelf, _Upkeep())
        self._extend_if_due(name, shelf, upkeep)
        self._audit_if_due(shelf, upkeep)
        state = self._state(shelf.view, upkeep)
        self._measure_if_due(state)
        reason = self._policy.rebuild_reason(state)
        failed = self._failed.get(name)
        if reason is None or (failed is not None and failed.bars(state.alive, self._clock())):
            return
        self._rebuild(name, shelf, state, reason)

    def _state(self, view: View, upkeep: _Upkeep) -> TierState:
        state = TierState(alive=view.alive_count, dead=view.count - view.alive_count)
        if (trained := view.trained) is None:
            return state
        return replace(
            state,
            trained_rows=trained.rows,
            skew=skew_of(trained.lists.list_sizes().tolist()),
            trained_skew=trained.skew,
            age_s=self._clock() - trained.at_s,
            audited_recall=upkeep.recall,
            full=upkeep.full,
        )

    def _measure_if_due(self, state: TierState) -> None:
        if self._measure is None or state.alive <= self._policy.exact_max_rows:
            return
        measure, self._measure = self._measure, None
        try:
            rows = measure()
        except (OutOfMemoryError, torch.OutOfMemoryError) as error:
            logger.warning("index has no memory to measure", extra={"reason": str(error)})
            return
        self._policy = replace(self._policy, exact_max_rows=rows)
        logger.info("index measured its threshold", extra={"exact_max_rows": rows})

    # ------------------------------------------------------------ the tail

    def _extend_if_due(self, name: Name, shelf: Shelf, upkeep: _Upkeep) -> None:
        view = shelf.view
        trained = view.trained
        if trained is None or upkeep.full:
            return
        if view.tail < self._policy.tail_limit(trained.lists.n_lists):
            return
        try:
            while not self._closed and shelf.view.covered < view.count:
                self._extend(name, shelf, trained)
        except OutOfMemoryError as error:
            # What lists have and the view does not count as theirs is found in the tail.
            upkeep.full = True
            logger.warning("index cannot extend its lists", extra={"reason": str(error)})

    def _extend(self, name: Name, shelf: Shelf, trained: Trained) -> None:
        """Puts the first rows of the tail into the lists."""
        view = shelf.view
        end = min(view.count, view.covered + EXTENDED_AT_ONCE)
        slots = np.flatnonzero(view.alive[view.covered : end]) + view.covered
        chosen = torch.from_numpy(slots).to(view.vectors.device)
        trained.lists.extend(view.vectors[chosen], chosen)
        with self._tenants.writing:
            shelf.cover(end)
            if self._tenants.has(name, shelf):
                self._tenants.publish(name[0])

    # ------------------------------------------------------------ recall

    def _audit_if_due(self, shelf: Shelf, upkeep: _Upkeep) -> None:
        view, now = shelf.view, self._clock()
        asked = list(shelf.asked)[-MOST_AUDITED:]
        if view.trained is None or not asked or now < upkeep.audited_at + self._audit_every_s:
            return
        upkeep.audited_at = now
        upkeep.recall = recall_of(self._nearest, view, asked)

    # ------------------------------------------------------------ new lists

    def _rebuild(self, name: Name, shelf: Shelf, state: TierState, reason: RebuildReason) -> None:
        n_lists = 0 if reason == "shrunk" else self._policy.n_lists(state.alive)
        progress = self._building[name] = Progress(stopped=self._closed)
        try:
            self._require_memory(state.alive, n_lists, reason)
            self._swap_in(name, shelf, n_lists, progress)
        except StoppedError:
            logger.info("index stopped a rebuild")
        except OutOfMemoryError as error:
            self._failed[name] = FailedBuild(state.alive, self._clock(), str(error))
            logger.warning("index goes on with what it has", extra={"reason": str(error)})
        except (DeviceLostError, torch.AcceleratorError):
            # Whoever runs the process decides what becomes of it.
            raise
        except Exception as error:
            # Whatever it was, what serves is untouched, and would be if it comes again.
            self._failed[name] = FailedBuild(state.alive, self._clock(), type(error).__name__)
            logger.exception("index goes on with what it has")
        else:
            self._failed.pop(name, None)
        finally:
            del self._building[name]
            with self._tenants.writing:
                shelf.unwatch()

    def _require_memory(self, rows: int, n_lists: int, reason: RebuildReason) -> None:
        """Refuses what would not fit beside what there is."""
        plan = MemoryPlan(rows=rows, dimension=self._tenants.dimension, n_lists=n_lists)
        left = self._memory()
        logger.info(
            "index plans a rebuild",
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

    def _swap_in(self, name: Name, shelf: Shelf, n_lists: int, progress: Progress) -> None:
        """Makes another shelf of the rows, and lets searches and writes go on with that."""
        rebuild = Rebuild(
            library=self._library, policy=self._policy, seed=self._seed, clock=self._clock
        )
        with self._tenants.writing:
            view = shelf.watch()
        rebuilt = rebuild.run(view, shelf.numbers, list(shelf.asked), n_lists, progress)
        self._close_when_unused(rebuilt.view.trained)
        progress.enter("carrying over")
        while True:
            with self._tenants.writing:
                change = shelf.noted()
                if change.size <= FEW_CHANGES:
                    rebuilt.change(change)
                    self._publish(name, shelf, rebuilt)
                    return
            rebuilt.change(change)
            progress.pause()

    def _publish(self, name: Name, shelf: Shelf, rebuilt: Shelf) -> None:
        """Puts one shelf in the place of the other, unless that is gone; `writing` is held."""
        if self._closed or not self._tenants.has(name, shelf):
            return
        rebuilt.asked = shelf.asked
        self._tenants.swap(name, rebuilt)
        logger.info(
            "index swapped",
            extra={"generation": self._tenants.generation, "rows": rebuilt.view.count},
        )

    def _close_when_unused(self, trained: Trained | None) -> None:
        if trained is not None:
            # The last search that holds them lets them go; closing them is not its work.
            finalizer = weakref.finalize(trained, self._unused.put, trained.lists)
            finalizer.atexit = False

    def _close_unused(self) -> None:
        while True:
            try:
                self._unused.get_nowait().close()
            except queue.Empty:
                return
