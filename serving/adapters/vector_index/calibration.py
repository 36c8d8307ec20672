"""How many lists to probe: measured on the corpus itself, against what a scan finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import torch

from serving.adapters.vector_index.columns import Mask, Slots
from serving.adapters.vector_index.inverted_lists import InvertedLists
from serving.adapters.vector_index.trained import Calibration
from serving.domain.index_policy import (
    LEAST_EXTRA_CANDIDATES,
    CurvePoint,
    aimed_recall,
    chosen_probes,
    expected_share,
    probe_steps,
)

JUDGED = 10
"""Recall is that of the nearest ten."""

BLOCK_ROWS = 16_384

TIE = 1e-5
"""Rows that score as much less than the last of the true ten are as good as it."""


class Trial(NamedTuple):
    """Questions, which rows may answer them, and how well the nearest of those score.

    `queries`: float32 (b, dimension). `least`: float32 (b,), the score of the last that counts.
    """

    queries: torch.Tensor
    mask: Mask
    judged: int
    least: torch.Tensor


def trial(
    vectors: torch.Tensor, queries: torch.Tensor, mask: Mask, check: Callable[[], None]
) -> Trial | None:
    """Scans for what the queries should find; None if there are none, or nothing to find.

    Args:
        vectors: float16 (rows, dimension).
        queries: float32 (b, dimension).
        mask: bool (rows,), the rows to find.
        check: Called after each block of rows.
    """
    judged = min(JUDGED, int(np.count_nonzero(mask)))
    if not judged or not len(queries):
        return None
    best = torch.full((len(queries), judged), -torch.inf, device=vectors.device)
    for start in range(0, len(vectors), BLOCK_ROWS):
        scores = queries @ vectors[start : start + BLOCK_ROWS].float().T
        hidden = torch.from_numpy(~mask[start : start + BLOCK_ROWS]).to(vectors.device)
        scores.masked_fill_(hidden, -torch.inf)
        best = torch.topk(torch.cat([best, scores], dim=1), judged).values
        check()
    return Trial(queries, mask, judged, best[:, -1])


def calibrated(
    lists: InvertedLists,
    vectors: torch.Tensor,
    trials: Iterable[Trial],
    target: float,
    check: Callable[[], None],
) -> Calibration:
    """Finds the fewest probes with which every trial reaches a little more than the target.

    The curve goes one step beyond, so that it shows what the next would bring. Reading all
    lists misses nothing and is not tried; without a trial it is all that is sure.

    Args:
        lists: They have all rows.
        vectors: float16 (rows, dimension), by slot.
        trials: What to find.
        target: Of recall, 0 to 1.
        check: Called after each step.
    """
    prepared = [(each, lists.allow(each.mask)) for each in trials]
    if not prepared:
        return Calibration(lists.n_lists, (CurvePoint(lists.n_lists, 1.0, 1.0),))
    aimed = aimed_recall(target)
    sizes, curve = lists.list_sizes().tolist(), list[CurvePoint]()
    reached = False
    for n_probes in probe_steps(lists.n_lists):
        recall = 1.0
        if n_probes < lists.n_lists:
            for each, allowed in prepared:
                k = each.judged + LEAST_EXTRA_CANDIDATES
                found = lists.search(each.queries, k, n_probes, allowed).slots
                recall = min(recall, _recall(vectors, each, found))
        curve.append(CurvePoint(n_probes, recall, expected_share(sizes, n_probes)))
        check()
        if reached:
            break
        reached = recall >= aimed
    return Calibration(chosen_probes(curve, aimed), tuple(curve))


def _recall(vectors: torch.Tensor, asked: Trial, found: torch.Tensor) -> float:
    """The share of what should be found that was, scored in float32: `found` is int64 (b, k)."""
    rows = vectors[found.clamp(min=0)].float()
    scores = torch.einsum("bkd,bd->bk", rows, asked.queries)
    scores = scores.masked_fill(found < 0, -torch.inf)
    good = (scores >= asked.least[:, None] - TIE).sum(dim=1).clamp(max=asked.judged)
    return float(good.sum()) / (asked.judged * len(found))


def held_out(rows: int, most: int, rng: np.random.Generator) -> tuple[Slots, Slots]:
    """Rows to ask with, and the others in random order to train on: int64 each.

    As many as one row in 16 at most are held out.
    """
    order = rng.permutation(rows)
    count = min(most, rows // 16)
    return order[:count], order[count:]
