"""Searches of vectors on a GPU, together: one product, top-k and copy for those of the same rows.

Launching kernels and waiting for them takes longer than most searches compute. So all that is to be
found is launched first, with as few kernels as possible, and only then copied to the host.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from serving.adapters.vector_index.device_vector import DeviceVector
from serving.adapters.vector_index.rows.host_search import (
    ScoredRow,
    Sought,
    best_of_ranked,
    first_head,
    ranked,
)
from serving.adapters.vector_index.rows.view import AllowedRows, PartitionView
from serving.adapters.vector_index.rule import candidates_for, n_probes
from serving.ports.embedding import VectorLike

GATHER_BELOW = 0.1
"""Below this share of allowed rows, they are gathered and the others are not read."""

MAX_VALUES = 1 << 26
"""Of what a launch computes: half a GiB in float64."""

TIE = 1e-14
"""The amount by which equal scores of later rows are lower. Scores in float16 are apart by 2**-24
or more, so that 5 million rows keep their order."""


class _Plan(NamedTuple):
    """The extent of a search: the `k` best of the scan, or of the lists and of the tail."""

    view: PartitionView
    allowed: AllowedRows
    k: int
    in_lists: bool


@torch.inference_mode()
def nearest_on_device(
    sought: Sequence[Sought], max_scanned_rows: int, device: str
) -> list[list[ScoredRow]]:
    """The nearest items of each search, best first.

    They are those of `nearest_in_lists`: searches of the same rows are launched as one, and those
    that found too little are searched again, with all rows or more of the best.
    """
    found: list[list[ScoredRow]] = [[] for _ in sought]
    waiting: defaultdict[_Plan, list[int]] = defaultdict(list)
    for number, each in enumerate(sought):
        if each.allowed.count:
            waiting[_first_plan(each, max_scanned_rows)].append(number)
    while waiting:
        launched = [
            (plan, some, _launched(plan, _queries([sought[each].vector for each in some], device)))
            for plan, numbers in waiting.items()
            for some in _split(numbers, plan)
        ]
        waiting = defaultdict(list)
        for plan, numbers, packed in launched:
            rows, scores = packed.cpu().numpy()
            scores = scores.view(np.float32)
            # Rows of the tail do not make up for better ones in lists that were not read.
            counts = np.count_nonzero(scores[:, : plan.k] > -np.inf, axis=1).tolist()
            for number, count, its_rows, its_scores in zip(
                numbers, counts, *ranked(rows, scores), strict=True
            ):
                depth = sought[number].depth
                best = best_of_ranked(plan.view, its_rows, its_scores, depth)
                if min(count, len(best)) >= depth or (
                    plan.k == plan.allowed.count and not plan.in_lists
                ):
                    found[number] = best
                else:
                    waiting[_next_plan(plan, depth)].append(number)
    return found


def _first_plan(sought: Sought, max_scanned_rows: int) -> _Plan:
    view, allowed, _, depth = sought
    k = candidates_for(depth)
    if view.trained is None or k is None or allowed.count <= max_scanned_rows:
        return _Plan(view, allowed, first_head(allowed, depth), in_lists=False)
    return _Plan(view, allowed, k, in_lists=True)


def _next_plan(plan: _Plan, depth: int) -> _Plan:
    k = first_head(plan.allowed, depth) if plan.in_lists else min(plan.allowed.count, 2 * plan.k)
    return plan._replace(k=k, in_lists=False)


def _split(numbers: Sequence[int], plan: _Plan) -> list[Sequence[int]]:
    """Searches in parts that fit into memory."""
    each = max(plan.view.count, plan.k * plan.view.vectors.shape[1])
    size = max(1, MAX_VALUES // each)
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def _queries(vectors: Sequence[VectorLike], device: str) -> torch.Tensor:
    """float32 (b, dimension), from the host in one copy."""
    there = [each.tensor for each in vectors if isinstance(each, DeviceVector)]
    if len(there) == len(vectors):
        return torch.stack(there).to(device)
    values = np.stack([np.asarray(each, np.float32) for each in vectors])
    # Pageable memory may be freed at once: what is not yet copied has been staged.
    return torch.from_numpy(values).to(device, non_blocking=True)


def _launched(plan: _Plan, queries: torch.Tensor) -> torch.Tensor:
    """Rows of b searches and the bits of their scores in float32: int32 (2, b, n).

    The score of a row that may not be returned is -inf. Equal vectors must tie. So each row is
    multiplied and summed by itself: in a matrix product, the last bits of a score depend on the
    row's position.
    """
    view, allowed, k, in_lists = plan
    excluded = None
    if allowed.count < view.count:
        excluded = allowed.excluded_on(view.vectors.device)
    if in_lists:
        listed = _in_lists_and_tail(plan, queries, excluded)
        # Lists may hold newer rows than this view. And the mask is checked again here: a row is
        # never shown on the library's word alone.
        rows = listed.clamp(0, view.count - 1)
        hidden = rows != listed
        if excluded is not None:
            hidden |= excluded[rows]
    elif allowed.count < GATHER_BELOW * view.count:
        chosen = allowed.slots_on(view.vectors.device)
        rows, hidden = chosen[_top(queries, view.vectors[chosen], k)], None
    else:
        rows, hidden = _top(queries, view.vectors, k, excluded), None
    scores = (view.vectors[rows] * queries[:, None]).sum(2)
    if hidden is not None:
        scores.masked_fill_(hidden, -torch.inf)
    return torch.stack((rows.int(), scores.view(torch.int32)))


def _in_lists_and_tail(
    plan: _Plan, queries: torch.Tensor, excluded: torch.Tensor | None
) -> torch.Tensor:
    """The nearest rows of the lists and then of the tail: int64 (b, n), -1 for none."""
    view, allowed, k, _ = plan
    assert view.trained is not None, "not in lists; this is a bug"
    lists, covered = view.trained.lists, view.covered
    probes = n_probes(view.count, lists.n_lists, allowed.share)
    mask = None if excluded is None else allowed.in_lists(lists)
    rows: torch.Tensor = lists.search(queries, k, probes, mask)
    if not view.tail:
        return rows
    hidden = None if excluded is None else excluded[covered:]
    tail = _top(queries, view.vectors[covered:], min(k, view.tail), hidden) + covered
    return torch.cat([rows, tail], dim=1)


def _top(
    queries: torch.Tensor, vectors: torch.Tensor, k: int, excluded: torch.Tensor | None = None
) -> torch.Tensor:
    """The positions of the `k` largest products in float16: int64 (b, k), unordered.

    Of equal products the first rows are taken; `topk` alone takes any of them.
    """
    scores = queries.half() @ vectors.T
    if excluded is not None:
        scores.masked_fill_(excluded, -torch.inf)
    count = len(vectors)
    later = torch.linspace(0, count * TIE, count, dtype=torch.float64, device=vectors.device)
    return (scores - later).topk(k, sorted=False).indices
