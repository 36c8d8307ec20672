"""The exact scan: all allowed rows are scored, and the best again, row by row.

On the host the rows are read where they are; on a GPU torch multiplies in float16.
"""

from __future__ import annotations

from typing import NamedTuple

from serving.adapters.vector_index import arrays
from serving.adapters.vector_index.arrays import Array
from serving.adapters.vector_index.lists import scan
from serving.adapters.vector_index.rows.allowed_rows import AllowedRows
from serving.adapters.vector_index.rows.columns import Slots
from serving.adapters.vector_index.rows.view import PartitionView
from serving.domain.items.records import ItemId

MIN_HEAD = 40
"""The least number of rows scored again; with 40, no measurement lost one of the true 10."""

GATHER_BELOW = 0.1
"""Below this share of allowed rows, they are gathered and the others are not read."""


class ScoredRow(NamedTuple):
    """An item with its best row; `score` is a cosine."""

    score: float
    item: ItemId
    row: int


def scan_nearest(
    view: PartitionView, allowed: AllowedRows, vector: Array, depth: int
) -> list[ScoredRow]:
    """The `depth` nearest items among the allowed rows, best first.

    Args:
        view: The rows.
        allowed: The rows that may be returned.
        vector: float32 (dimension,), on the device of the rows.
        depth: At least 1.
    """
    head = min(allowed.count, max(MIN_HEAD, 2 * depth))
    while True:
        rows = _nearest_rows(view, allowed, vector, head)
        found = best_rows(view, rows, vector)
        # Several rows of the head may belong to one item; then the head was too short.
        if len(found) >= depth or head == allowed.count:
            return found[:depth]
        head = min(allowed.count, 2 * head)


def _nearest_rows(view: PartitionView, allowed: AllowedRows, vector: Array, count: int) -> Slots:
    """The `count` nearest allowed rows: int64 (count,), unordered; all of them if they are few."""
    if arrays.is_on_host(view.vectors):
        passing = None if allowed.count == view.count else allowed.mask
        return scan(view.vectors, vector, count, passing)
    return _nearest_on_gpu(view, allowed, vector, count)


def _nearest_on_gpu(view: PartitionView, allowed: AllowedRows, vector: Array, count: int) -> Slots:
    vectors, query = view.vectors, vector.half()
    if allowed.count == view.count:
        # Copying all row numbers to the GPU would take longer than the scan.
        rows = (vectors @ query).float().topk(count).indices
    else:
        chosen = allowed.slots_on_device_of(vectors)
        if len(chosen) < GATHER_BELOW * view.count:
            scores = vectors[chosen] @ query
        else:
            scores = (vectors @ query)[chosen]
        rows = chosen[scores.float().topk(count).indices]
    return arrays.to_host(rows)


def scan_tail(view: PartitionView, allowed: AllowedRows, vector: Array, most: int) -> Slots:
    """The nearest allowed rows of the tail, at most `most`: int64 (n,), unordered."""
    slots = allowed.slots(view.covered)
    if len(slots) <= most:
        return slots
    tail = view.vectors[view.covered :]
    if arrays.is_on_host(tail):
        return scan(tail, vector, most, allowed.mask[view.covered :]) + view.covered
    scores = tail @ vector.half()
    scores = scores[arrays.on_device_of(slots - view.covered, tail)]
    head: Slots = slots[arrays.to_host(scores.float().topk(most).indices)]
    return head


def best_rows(view: PartitionView, rows: Slots, vector: Array) -> list[ScoredRow]:
    """Scores rows in float32 and keeps the best row of each item; ties are ordered by id.

    Equal vectors must tie. So each row is multiplied and summed by itself: in a matrix product,
    the last bits of a score depend on the row's position. Scores are rounded to 1e-6.
    """
    vectors = view.columns.vectors
    chosen = arrays.as_float32(vectors[arrays.on_device_of(rows, vectors)])
    items = view.columns.items
    scored = [
        (-round(score, 6), items[row], row)
        for score, row in zip((chosen * vector).sum(1).tolist(), rows.tolist(), strict=True)
    ]
    best: dict[ItemId, ScoredRow] = {}
    for negative, item, row in sorted(scored):
        if item not in best:
            best[item] = ScoredRow(-negative, item, row)
    return list(best.values())
