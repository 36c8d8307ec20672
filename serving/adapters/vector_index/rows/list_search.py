"""Searching a view whose rows are in inverted lists, except for the tail."""

from __future__ import annotations

import numpy as np

from serving.adapters.vector_index import arrays
from serving.adapters.vector_index.arrays import Array
from serving.adapters.vector_index.lists.inverted_lists import TrainedLists
from serving.adapters.vector_index.rows.allowed_rows import AllowedRows
from serving.adapters.vector_index.rows.columns import Slots
from serving.adapters.vector_index.rows.exact_scan import (
    ScoredRow,
    best_rows,
    scan_nearest,
    scan_tail,
)
from serving.adapters.vector_index.rows.view import PartitionView
from serving.adapters.vector_index.rule import candidates_for, n_probes


def nearest_in_lists(
    view: PartitionView, allowed: AllowedRows, vector: Array, depth: int, max_scanned_rows: int
) -> list[ScoredRow]:
    """The `depth` nearest items among the allowed rows, best first.

    1. If few rows are allowed, or the lists cannot return enough candidates, or there are no
       lists: scan the allowed rows.
    2. Fetch more candidates from the lists than are wanted, and scan the tail.
    3. Score all of them in float32 and keep the best row of each item.
    4. If these are too few: scan the allowed rows. So `depth` is reached whenever enough match.
    """
    trained, k = view.trained, candidates_for(depth)
    if trained is None or k is None or allowed.count <= max_scanned_rows:
        return scan_nearest(view, allowed, vector, depth)
    candidates = _candidates(view, trained, allowed, vector, k)
    tail = scan_tail(view, allowed, vector, k)
    found = best_rows(view, np.union1d(candidates, tail), vector)
    # Rows of the tail do not make up for better ones in lists that were not read.
    if min(len(candidates), len(found)) < depth:
        return scan_nearest(view, allowed, vector, depth)
    return found[:depth]


def _candidates(
    view: PartitionView, trained: TrainedLists, allowed: AllowedRows, vector: Array, k: int
) -> Slots:
    """The allowed rows among the nearest `k` of the lists: int64 (n,)."""
    lists, query = trained.lists, vector[None]
    probes = n_probes(view.count, lists.n_lists, allowed.share)
    if allowed.count == view.count:
        slots = _found(lists.search(query, k, probes, None))
        if (slots < view.count).all():
            return slots
        # The lists were extended after this view was published. Search again with a filter, so
        # that newer rows do not displace those of the view.
    slots = _found(lists.search(query, k, probes, allowed.in_lists(lists)))
    slots = slots[slots < view.count]
    # The filter is checked again here; a row is never shown on the library's word alone.
    return slots[allowed.mask[slots]]


def _found(slots: Array) -> Slots:
    found: Slots = arrays.to_host(slots[0])
    return found[found >= 0]
