"""Chooses the number of lists to probe, by recall measured on the corpus itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.adapters.vector_index import arrays
from serving.adapters.vector_index.arrays import Array
from serving.adapters.vector_index.lists.inverted_lists import InvertedLists
from serving.adapters.vector_index.lists.trained import Calibration
from serving.adapters.vector_index.rows.columns import Mask, Slots
from serving.adapters.vector_index.tuning.policy import (
    LEAST_EXTRA_CANDIDATES,
    calibration_target,
    chosen_probes,
    expected_share,
    probe_steps,
)
from serving.ports.vector_index import CurvePoint

JUDGED = 10
"""Recall is measured at 10."""

BLOCK_ROWS = 16_384

TIE = 1e-5
"""Rows that score within this of the last true one count as true."""


class GroundTruth(NamedTuple):
    """Queries with the scores that the exact scan found.

    `queries`: float32 (b, dimension), on the device. `mask`: bool (rows,), the rows that may be
    found. `judged` rows per query are true; `least`: float32 (b,), the score of the last of them.
    Both are on the host.
    """

    queries: Array
    mask: Mask
    judged: int
    least: NDArray[np.float32]


def ground_truth(
    vectors: Array, queries: Array, mask: Mask, check: Callable[[], None]
) -> GroundTruth | None:
    """Scans for the true nearest rows; None if there are no queries or no allowed rows.

    Args:
        vectors: float16 (rows, dimension).
        queries: float32 (b, dimension), on the same device.
        mask: bool (rows,), the rows that may be found.
        check: Called after each block of rows; may raise.
    """
    judged = min(JUDGED, int(np.count_nonzero(mask)))
    if not judged or not len(queries):
        return None
    best = np.full((len(queries), judged), -np.inf, np.float32)
    for start in range(0, len(vectors), BLOCK_ROWS):
        scores = queries @ arrays.as_float32(vectors[start : start + BLOCK_ROWS]).T
        scores[:, arrays.beside(~mask[start : start + BLOCK_ROWS], vectors)] = -np.inf
        of_block = arrays.largest(scores, min(judged, scores.shape[1]))
        best = arrays.largest(np.concatenate([best, of_block], axis=1), judged)
        check()
    return GroundTruth(queries, mask, judged, best[:, -1])


def calibrate(
    lists: InvertedLists,
    vectors: Array,
    truths: Iterable[GroundTruth],
    target: float,
    check: Callable[[], None],
) -> Calibration:
    """Finds the fewest probes with which every set of queries exceeds the recall target.

    The curve has one further step, to show what more probes would bring. Probing all lists is
    exact, so it is not measured; without any queries it is the result.

    Args:
        lists: They hold all rows.
        vectors: float16 (rows, dimension), by slot.
        truths: The queries.
        target: The recall target, 0 to 1; see `calibration_target` for the margin.
        check: Called after each step; may raise.
    """
    prepared = [(each, lists.allow(each.mask)) for each in truths]
    if not prepared:
        return Calibration(lists.n_lists, (CurvePoint(lists.n_lists, 1.0, 1.0),))
    aimed = calibration_target(target)
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


def _recall(vectors: Array, truth: GroundTruth, found: Array) -> float:
    """The recall of the slots `found`, int64 (b, k), scored in float32."""
    rows = arrays.as_float32(vectors[found.clip(min=0)])
    scores = arrays.to_host((rows @ truth.queries[:, :, None])[:, :, 0])
    good = (scores >= truth.least[:, None] - TIE) & (arrays.to_host(found) >= 0)
    return float(good.sum(axis=1).clip(max=truth.judged).sum()) / (truth.judged * len(found))


def hold_out(rows: int, most: int, rng: np.random.Generator) -> tuple[Slots, Slots]:
    """Splits rows into held-out queries and training rows, both in random order: int64 each.

    At most `most` rows, and at most one in 16, are held out.
    """
    order = rng.permutation(rows)
    count = min(most, rows // 16)
    return order[:count], order[count:]
