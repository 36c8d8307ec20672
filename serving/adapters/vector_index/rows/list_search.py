"""Searching a view on the host whose rows are in inverted lists, except for the tail."""

from __future__ import annotations

import numpy as np

from serving.adapters.vector_index.lists.inverted_lists import TrainedLists
from serving.adapters.vector_index.rows.allowed_rows import AllowedRows
from serving.adapters.vector_index.rows.columns import Slots
from serving.adapters.vector_index.rows.exact_scan import (
    ScoredRow,
    Sought,
    best_rows,
    scan_nearest,
    scan_tail,
    scores_of,
)
from serving.adapters.vector_index.rows.view import PartitionView
from serving.adapters.vector_index.rule import candidates_for, n_probes
from serving.ports.embedding import Vector


def nearest_in_lists(sought: Sought, max_scanned_rows: int) -> list[ScoredRow]:
    """The `depth` nearest items among the allowed rows, best first.

    1. If few rows are allowed, or the lists cannot return enough candidates, or there are no
       lists: scan the allowed rows.
    2. Fetch more candidates from the lists than are wanted, and scan the tail.
    3. Score all of them in float32 and keep the best row of each item.
    4. If these are too few: scan the allowed rows. So `depth` is reached whenever enough match.
    """
    view, allowed, _, depth = sought
    vector = np.ascontiguousarray(sought.vector, np.float32)
    trained, k = view.trained, candidates_for(depth)
    if trained is None or k is None or allowed.count <= max_scanned_rows:
        return scan_nearest(view, allowed, vector, depth)
    candidates = _candidates(view, trained, allowed, vector, k)
    rows = np.union1d(candidates, scan_tail(view, allowed, vector, k))
    found = best_rows(view, rows, scores_of(view, rows, vector), depth)
    # Rows of the tail do not make up for better ones in lists that were not read.
    if min(len(candidates), len(found)) < depth:
        return scan_nearest(view, allowed, vector, depth)
    return found


def _candidates(
    view: PartitionView, trained: TrainedLists, allowed: AllowedRows, vector: Vector, k: int
) -> Slots:
    """The allowed rows among the nearest `k` of the lists: int64 (n,)."""
    lists = trained.lists
    probes = n_probes(view.count, lists.n_lists, allowed.share)
    mask = None if allowed.count == view.count else allowed.in_lists(lists)
    slots: Slots = lists.search(vector[None], k, probes, mask)[0]
    # Lists may hold newer rows than this view. And the mask is checked again here: a row is never
    # shown on the library's word alone.
    slots = slots[(slots >= 0) & (slots < view.count)]
    return slots[allowed.mask[slots]]
