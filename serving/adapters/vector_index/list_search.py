"""Searching a view whose rows are in inverted lists, except for the tail."""

from __future__ import annotations

import numpy as np

from serving.adapters.vector_index import arrays
from serving.adapters.vector_index.arrays import Array
from serving.adapters.vector_index.lists.trained import TrainedLists
from serving.adapters.vector_index.rows.allowed_rows import AllowedRows
from serving.adapters.vector_index.rows.columns import Slots
from serving.adapters.vector_index.rows.exact_scan import (
    ScoredRow,
    best_rows,
    scan_nearest,
    scan_tail,
)
from serving.adapters.vector_index.rows.view import PartitionView
from serving.adapters.vector_index.tuning.policy import (
    IndexPolicy,
    candidates_for,
    probes_for,
    widened,
)


def nearest_in_lists(
    view: PartitionView,
    allowed: AllowedRows,
    vector: Array,
    depth: int,
    policy: IndexPolicy,
) -> list[ScoredRow]:
    """The `depth` nearest items among the allowed rows, best first.

    1. If few rows are allowed, or the lists cannot return enough candidates, or there are no
       lists: scan the allowed rows.
    2. Fetch more candidates from the lists than are wanted, and scan the tail.
    3. Score all of them in float32 and keep the best row of each item.
    4. If the result is short, or the probed lists had too few rows: widen the search, and
       finally scan all allowed rows. So `depth` is reached whenever enough items match.
    """
    trained, k = view.trained, candidates_for(depth)
    if trained is None or k is None:
        return scan_nearest(view, allowed, vector, depth)
    calibration, n_lists = trained.calibration, trained.lists.n_lists
    if policy.prefers_scan(allowed.count, view.count, calibration.chosen.share):
        return scan_nearest(view, allowed, vector, depth)
    tail = scan_tail(view, allowed, vector, k)
    n_probes = probes_for(calibration.n_probes, n_lists, allowed.share)
    further: tuple[int, int] | None = (k, n_probes)
    while further is not None:
        k, n_probes = further
        candidates = _candidates(view, trained, allowed, vector, k, n_probes)
        found = best_rows(view, np.union1d(candidates, tail), vector)
        if len(found) >= depth and (len(candidates) >= depth or n_probes == n_lists):
            return found[:depth]
        further = widened(k, n_probes, n_lists)
    return scan_nearest(view, allowed, vector, depth)


def _candidates(
    view: PartitionView,
    trained: TrainedLists,
    allowed: AllowedRows,
    vector: Array,
    k: int,
    n_probes: int,
) -> Slots:
    """The allowed rows among the nearest `k` of the lists: int64 (n,)."""
    lists, query = trained.lists, vector[None]
    if allowed.count == view.count:
        slots = _found(lists.search(query, k, n_probes, None).slots)
        if (slots < view.count).all():
            return slots
        # The lists were extended after this view was published. Search again with a filter, so
        # that newer rows do not displace those of the view.
    slots = _found(lists.search(query, k, n_probes, allowed.in_lists(lists)).slots)
    slots = slots[slots < view.count]
    # The filter is checked again here; a row is never shown on the library's word alone.
    return slots[allowed.mask[slots]]


def _found(slots: Array) -> Slots:
    found: Slots = arrays.to_host(slots[0])
    return found[found >= 0]
