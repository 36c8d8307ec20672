"""The exact scan on the host: all allowed rows are scored, and the best again, row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.adapters.vector_index.lists import scan
from serving.adapters.vector_index.rows.allowed_rows import AllowedRows
from serving.adapters.vector_index.rows.columns import Slots
from serving.adapters.vector_index.rows.view import PartitionView
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
    """What a search looks for: the `depth` nearest items to a vector among the allowed rows.

    `vector` is checked, and maybe still on the device that computed it.
    """

    view: PartitionView
    allowed: AllowedRows
    vector: VectorLike
    depth: int


def scan_nearest(
    view: PartitionView, allowed: AllowedRows, vector: Vector, depth: int
) -> list[ScoredRow]:
    """The `depth` nearest items among the allowed rows, best first.

    Args:
        view: The rows, on the host.
        allowed: The rows that may be returned.
        vector: float32 (dimension,).
        depth: At least 1.
    """
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
    """How many rows are scored again at first."""
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

    Args:
        view: The rows.
        rows: int64 (n,).
        scores: float32 (n,), their cosines.
        depth: The most items.
    """
    return best_of_ranked(view, *ranked(rows, scores), depth)


def ranked(rows: NDArray[np.integer], scores: NDArray[np.float32]) -> tuple[list[Any], list[Any]]:
    """Rows and scores of one search (n,) or of several (b, n), best first.

    Scores are rounded to 1e-6.
    """
    rounded = scores.astype(np.float64).round(6)
    order = np.lexsort((rows, -rounded))
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
