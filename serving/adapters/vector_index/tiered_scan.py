"""Searching a view whose rows are in lists, but for a tail."""

from __future__ import annotations

import numpy as np
import torch

from serving.adapters.vector_index.allowed import Allowed
from serving.adapters.vector_index.columns import Slots
from serving.adapters.vector_index.exact_scan import Found, best_rows, head_of_tail, nearest
from serving.adapters.vector_index.trained import Trained
from serving.adapters.vector_index.view import View
from serving.domain.index_policy import IndexPolicy, candidates_for, probes_for, widened


def nearest_in_tiers(
    view: View, allowed: Allowed, vector: torch.Tensor, depth: int, policy: IndexPolicy
) -> list[Found]:
    """The `depth` nearest items among the allowed rows, best first.

    1. Few allowed rows, or more wanted than lists can give: read the rows themselves.
    2. Ask the lists for more candidates than are wanted, and scan the tail.
    3. Score all of them in float32 and keep the best row of each item.
    4. Too few items, or few from the lists because the probed ones had no more: look
       further, and at last read all rows. So `depth` is filled whenever as many items match.
    """
    trained, k = view.trained, candidates_for(depth)
    if trained is None or k is None:
        return nearest(view, allowed, vector, depth)
    calibration, n_lists = trained.calibration, trained.lists.n_lists
    if policy.are_few(allowed.count, view.count, calibration.chosen.share):
        return nearest(view, allowed, vector, depth)
    tail = head_of_tail(view, allowed, vector, k)
    further: tuple[int, int] | None = (
        k,
        probes_for(calibration.n_probes, n_lists, allowed.share),
    )
    while further is not None:
        k, n_probes = further
        candidates = _in_lists(view, trained, allowed, vector, k, n_probes)
        found = best_rows(view, np.union1d(candidates, tail), vector)
        if len(found) >= depth and (len(candidates) >= depth or n_probes == n_lists):
            return found[:depth]
        further = widened(k, n_probes, n_lists)
    return nearest(view, allowed, vector, depth)


def _in_lists(
    view: View, trained: Trained, allowed: Allowed, vector: torch.Tensor, k: int, n_probes: int
) -> Slots:
    """The allowed rows among the nearest `k` of the lists: int64 (n,)."""
    lists, query = trained.lists, vector[None]
    if allowed.count == view.count:
        slots = _found(lists.search(query, k, n_probes, None).slots)
        if (slots < view.count).all():
            return slots
        # Lists that were extended after this view was published: its own rows must not be
        # crowded out by rows that it does not have.
    slots = _found(lists.search(query, k, n_probes, allowed.in_lists(lists)).slots)
    slots = slots[slots < view.count]
    # The library was told so; what it answers is looked at all the same before it is shown.
    return slots[allowed.mask[slots]]


def _found(slots: torch.Tensor) -> Slots:
    found: Slots = slots[0].cpu().numpy()
    return found[found >= 0]
