"""Searches of a view on the host: of its lists and the tail, or an exact scan of allowed rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.adapters.vector_index.lists import scan
from serving.adapters.vector_index.lists.inverted_lists import TrainedLists
from serving.adapters.vector_index.rows.columns import Slots
from serving.adapters.vector_index.rows.view import AllowedRows, PartitionView
from serving.adapters.vector_index.rule import candidates_for, n_probes
from serving.domain.items.records import ItemId
from serving.ports.embedding import Vector, VectorLike

MIN_HEAD = 40
"""The least number of rows scored again; with 40, no measurement lost one of the true 10."""


class ScoredRow(NamedTuple):
    """An item with its best row; `score` is a cosine."""

    score: float
    item: ItemId
    row: int


class Sought(NamedTuple):
    """The target of a search: the `depth` nearest items to a vector among the allowed rows.

    `vector` is checked, and maybe still on the device that computed it.
    """

    view: PartitionView
    allowed: AllowedRows
    vector: VectorLike
    depth: int


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


def scan_nearest(
    view: PartitionView, allowed: AllowedRows, vector: Vector, depth: int
) -> list[ScoredRow]:
    """The `depth` nearest items among the allowed rows of a view on the host, best first."""
    head = first_head(allowed, depth)
    passing = None if allowed.count == view.count else allowed.mask
    while True:
        rows = scan(view.vectors, vector, head, passing)
        found = best_rows(view, rows, scores_of(view, rows, vector), depth)
        # Several rows of the head may belong to one item; then the head was too short.
        if len(found) >= depth or head == allowed.count:
            return found
        head = min(allowed.count, 2 * head)


def first_head(allowed: AllowedRows, depth: int) -> int:
    """The number of rows to score again at first."""
    return min(allowed.count, max(MIN_HEAD, 2 * depth))


def scan_tail(view: PartitionView, allowed: AllowedRows, vector: Vector, most: int) -> Slots:
    """The nearest allowed rows of the tail, at most `most`: int64 (n,), unordered."""
    slots = allowed.slots(view.covered)
    if len(slots) <= most:
        return slots
    tail = view.vectors[view.covered :]
    return scan(tail, vector, most, allowed.mask[view.covered :]) + view.covered


def scores_of(view: PartitionView, rows: Slots, vector: Vector) -> NDArray[np.float32]:
    """The cosines of rows: float32 (n,).

    Equal vectors must tie. So each row is multiplied and summed by itself: in a matrix product,
    the last bits of a score depend on the row's position.
    """
    scores: NDArray[np.float32] = (view.vectors[rows].astype(np.float32) * vector).sum(1)
    return scores


def best_rows(
    view: PartitionView, rows: Slots, scores: NDArray[np.float32], depth: int
) -> list[ScoredRow]:
    """The `depth` best items of some rows, each with its best row; ties are ordered by id.

    Rows are int64 (n,), and their cosines float32 (n,).
    """
    return best_of_ranked(view, *ranked(rows, scores), depth)


def ranked(rows: NDArray[np.integer], scores: NDArray[np.float32]) -> tuple[list[Any], list[Any]]:
    """Rows and scores of one search (n,) or of several (b, n), best first.

    Scores are rounded to 1e-6.
    """
    rounded = scores.astype(np.float64).round(6)
    order = np.lexsort((rows, -rounded))
    if order.ndim == 1:
        return rows[order].tolist(), rounded[order].tolist()
    return (
        np.take_along_axis(rows, order, -1).tolist(),
        np.take_along_axis(rounded, order, -1).tolist(),
    )


def best_of_ranked(
    view: PartitionView, rows: Sequence[int], scores: Sequence[float], depth: int
) -> list[ScoredRow]:
    """The same of ranked rows, without those whose score is -inf."""
    items = view.columns.items
    best: dict[ItemId, ScoredRow] = {}
    worst = -math.inf
    for row, score in zip(rows, scores, strict=True):
        if score == -math.inf or (len(best) >= depth and score < worst):
            break
        if (item := items[row]) not in best:
            best[item] = ScoredRow(score, item, row)
            worst = score
    found = sorted(best.values(), key=lambda each: (-each.score, each.item))
    return found[:depth]
