"""Searches of vectors on a GPU, together: a product and a top-k a group, and one copy for all.

Launching kernels and waiting for them takes longer than most searches compute. So all that is to be
found is launched first, and copied to the host once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from serving.adapters.vector_index.lists.inverted_lists import TrainedLists
from serving.adapters.vector_index.rows.allowed_rows import AllowedRows
from serving.adapters.vector_index.rows.exact_scan import (
    ScoredRow,
    Sought,
    best_rows,
    first_head,
)
from serving.adapters.vector_index.rows.view import PartitionView
from serving.adapters.vector_index.rule import candidates_for, n_probes

GATHER_BELOW = 0.1
"""Below this share of allowed rows, they are gathered and the others are not read."""

MAX_SCORES = 1 << 27
"""Of a product, in float16: a quarter of a GiB."""

IN_LISTS = 0
"""In place of the number of rows that a scan scores again: look into the lists."""


class _Scored(NamedTuple):
    """Rows of a group of b searches, int64 (b, n), and their scores in float32, on the device.

    The score of a row that may not be returned is -inf.
    """

    rows: torch.Tensor
    scores: torch.Tensor


@torch.inference_mode()
def nearest_on_device(sought: Sequence[Sought], max_scanned_rows: int) -> list[list[ScoredRow]]:
    """The nearest items of each search, best first.

    They are those of `nearest_in_lists`: searches of the same rows are launched as one, and those
    that found too little are searched again, with all rows or a longer head.

    Args:
        sought: The searches.
        max_scanned_rows: Up to this many allowed rows are scanned, even if they are in lists.
    """
    found: list[list[ScoredRow]] = [[] for _ in sought]
    heads = {
        number: IN_LISTS if _are_in_lists(each, max_scanned_rows) else _first_head(each)
        for number, each in enumerate(sought)
        if each.allowed.count
    }
    while heads:
        groups: defaultdict[tuple[PartitionView, AllowedRows, int, int], list[int]]
        groups = defaultdict(list)
        for number, head in heads.items():
            each = sought[number]
            depth = each.depth if head == IN_LISTS else 0
            groups[each.view, each.allowed, head, depth].append(number)
        launched = [
            _launched(*group, torch.stack([sought[number].vector for number in numbers]))
            for group, numbers in groups.items()
        ]
        for numbers, (rows, scores) in zip(groups.values(), _to_host(launched), strict=True):
            for number, its_rows, its_scores in zip(numbers, rows, scores, strict=True):
                view, allowed, _, depth = sought[number]
                head = heads.pop(number)
                there = np.isfinite(its_scores)
                best = best_rows(view, its_rows[there], its_scores[there], depth)
                if len(best) >= depth or head == allowed.count:
                    found[number] = best
                elif head == IN_LISTS:
                    heads[number] = _first_head(sought[number])
                else:
                    heads[number] = min(allowed.count, 2 * head)
    return found


def _are_in_lists(sought: Sought, max_scanned_rows: int) -> bool:
    return (
        sought.view.trained is not None
        and candidates_for(sought.depth) is not None
        and sought.allowed.count > max_scanned_rows
    )


def _first_head(sought: Sought) -> int:
    return first_head(sought.allowed, sought.depth)


def _launched(
    view: PartitionView, allowed: AllowedRows, head: int, depth: int, queries: torch.Tensor
) -> _Scored:
    if head != IN_LISTS:
        return _scored(view, _scanned(view, allowed, queries, head), queries)
    trained, k = view.trained, candidates_for(depth)
    assert trained is not None, "not in lists; this is a bug"
    assert k is not None, "more than lists return; this is a bug"
    return _from_lists(view, trained, allowed, queries, k, depth)


def _scanned(
    view: PartitionView, allowed: AllowedRows, queries: torch.Tensor, head: int
) -> torch.Tensor:
    """The `head` nearest allowed rows of each query: int64 (b, head)."""
    halves, vectors = queries.half(), view.vectors
    if allowed.count < GATHER_BELOW * view.count:
        chosen: torch.Tensor = allowed.slots_on(vectors.device)
        return chosen[_top(halves, vectors[chosen], head, None)]
    return _top(halves, vectors, head, _excluded(view, allowed))


def _excluded(view: PartitionView, allowed: AllowedRows) -> torch.Tensor | None:
    """The rows that may not be returned: bool (rows,); None if all may be."""
    return None if allowed.count == view.count else allowed.excluded_on(view.vectors.device)


def _top(
    halves: torch.Tensor, vectors: torch.Tensor, k: int, excluded: torch.Tensor | None
) -> torch.Tensor:
    """The positions of the `k` largest products in float16: int64 (b, k), unordered."""
    found = []
    for some in torch.split(halves, max(1, MAX_SCORES // len(vectors))):
        scores = some @ vectors.T
        if excluded is not None:
            scores.masked_fill_(excluded, -torch.inf)
        found.append(scores.topk(k, sorted=False).indices)
    return torch.cat(found)


def _from_lists(
    view: PartitionView,
    trained: TrainedLists,
    allowed: AllowedRows,
    queries: torch.Tensor,
    k: int,
    depth: int,
) -> _Scored:
    """The allowed rows among the nearest `k` of the lists and of the tail.

    None of them, if the lists return fewer than `depth`: rows of the tail do not make up for better
    ones in lists that were not read.
    """
    lists, excluded = trained.lists, _excluded(view, allowed)
    probes = n_probes(view.count, lists.n_lists, allowed.share)
    rows = lists.search(queries, k, probes, None if excluded is None else allowed.in_lists(lists))
    # Lists may hold newer rows than this view. And the mask is checked again here: a row is never
    # shown on the library's word alone.
    passing = (rows >= 0) & (rows < view.count)
    rows = rows.where(passing, 0)
    if excluded is not None:
        passing &= ~excluded[rows]
    enough = passing.sum(1, keepdim=True) >= depth
    if view.tail:
        hidden = None if excluded is None else excluded[view.covered :]
        count = min(k, view.tail)
        tail = _top(queries.half(), view.vectors[view.covered :], count, hidden) + view.covered
        rows = torch.cat([rows, tail], dim=1)
        shown = torch.ones_like(tail, dtype=torch.bool) if excluded is None else ~excluded[tail]
        passing = torch.cat([passing, shown], dim=1)
    return _scored(view, rows, queries, passing & enough)


def _scored(
    view: PartitionView,
    rows: torch.Tensor,
    queries: torch.Tensor,
    passing: torch.Tensor | None = None,
) -> _Scored:
    """Scores rows again in float32.

    Equal vectors must tie. So each row is multiplied and summed by itself: in a matrix product,
    the last bits of a score depend on the row's position.
    """
    scores = (view.vectors[rows].float() * queries[:, None]).sum(2)
    return _Scored(rows, scores if passing is None else scores.where(passing, -torch.inf))


def _to_host(
    launched: Sequence[_Scored],
) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """The same on the host; waits for the device once."""
    rows = torch.cat([each.rows.flatten() for each in launched]).cpu().numpy()
    scores = torch.cat([each.scores.flatten() for each in launched]).cpu().numpy()
    shapes = [each.rows.shape for each in launched]
    ends = np.cumsum([shape.numel() for shape in shapes])[:-1]
    return [
        (its_rows.reshape(shape), its_scores.reshape(shape))
        for its_rows, its_scores, shape in zip(
            np.split(rows, ends), np.split(scores, ends), shapes, strict=True
        )
    ]
