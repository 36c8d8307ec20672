"""All rules and thresholds of the tiered index, as functions of numbers.

A small partition is scanned. A large one is in inverted lists, of which a search probes the
nearest; rows written since are in a tail, which is scanned. docs/index.md describes the life cycle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from serving.ports.vector_index import CurvePoint

MOST_CANDIDATES = 256
"""Above this k cuVS leaves its fast path; larger requests are answered by a scan."""

LEAST_EXTRA_CANDIDATES = 16
"""Additional candidates to score again in float32; with 16, float16 lost none of 10."""

LISTS_PER_ROOT_OF_ROWS = 4
"""At 100,000 rows, 1,024 lists reach the recall of 316 with 6 % instead of 20 % of the rows."""

FEWEST_TRAINED_PER_LIST, MOST_TRAINED_PER_LIST = 64, 256
TRAINED_AT_MOST_ABOUT = 262_144
"""Rows; training time grows with rows times lists."""

MOST_DEAD_SHARE = 0.2
MOST_GROWTH = 2.0
MOST_SKEW = 8.0
"""The size of the largest list relative to the mean; probing it costs that much more."""

SKEW_GROWTH = 1.25
"""Lists as skewed as they were at training would be as skewed after a rebuild."""

CALIBRATION_MARGIN = 0.25
"""The share of the permitted misses that calibration keeps in reserve: it estimates recall to
within half a percent, and real queries resemble the rows less than held-out rows do."""

MOST_RECALL_LOST = 0.02
RECALL_PAUSE_S = 600.0
"""Younger lists are not rebuilt for their recall: new ones would be equivalent."""

GROWTH_TO_TRY_AGAIN = 1.25
PAUSE_AFTER_FAILURE_S = 600.0

WIDER = 4
"""The factor by which a search with too few results is widened, each time."""

RebuildReason = Literal["grown", "tombstones", "doubled", "skewed", "recall", "full", "shrunk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TierState:
    """The numbers that decide about a rebuild. All but the first two describe lists.

    `skew` is compared with `MOST_SKEW`; `trained_skew` is its value at training. Lists are `full`
    if an extension ran out of memory.
    """

    alive: int
    dead: int
    trained_rows: int | None = None
    skew: float | None = None
    trained_skew: float | None = None
    age_s: float | None = None
    audited_recall: float | None = None
    full: bool = False


@dataclass(frozen=True, slots=True)
class FailedBuild:
    """A rebuild that failed, with the reason: what did not fit, or the type of the error."""

    rows: int
    at_s: float
    what: str

    def bars(self, rows: int, now_s: float) -> bool:
        """Whether it is too early for another attempt with this number of rows."""
        grown = rows >= GROWTH_TO_TRY_AGAIN * self.rows
        return not grown and now_s - self.at_s < PAUSE_AFTER_FAILURE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPolicy:
    """The thresholds that an operator, or a test, may set.

    Args:
        exact_max_rows: Up to this many live rows are scanned; more are put into lists.
        recall_target: The share of the true 10 nearest rows that a search must find.
        min_lists: The least number of lists, if there are enough rows.
        min_rows_per_list: With fewer rows per list, centroids are noise.
        min_tail: The least number of tail rows before lists are extended.
        min_scan: Up to this many allowed rows are scanned, without the lists.
        scan_factor: The same, as a multiple of the rows that a list search scores: twice the
            work, but no row is missed.
    """

    exact_max_rows: int = 50_000
    recall_target: float = 0.98
    min_lists: int = 32
    min_rows_per_list: int = 32
    min_tail: int = 1024
    min_scan: int = 256
    scan_factor: float = 2.0

    def n_lists(self, rows: int) -> int:
        wanted = max(self.min_lists, 8 * round(LISTS_PER_ROOT_OF_ROWS * math.sqrt(rows) / 8))
        return max(1, min(wanted, rows // self.min_rows_per_list))

    def tail_limit(self, n_lists: int) -> int:
        """The number of tail rows from which on lists are extended."""
        return max(self.min_tail, n_lists)

    def prefers_scan(self, allowed: int, rows: int, share: float) -> bool:
        """Whether the rows that pass a filter are scanned instead of searched in lists.

        Args:
            allowed: The number of rows that pass.
            rows: The number of all rows.
            share: The share of all rows that a list search reads.
        """
        return allowed <= max(self.scan_factor * share * rows, self.min_scan)

    def rebuild_reason(self, state: TierState) -> RebuildReason | None:
        """Why the partition must be rebuilt, with lists or without; None if it need not be."""
        if state.trained_rows is None:
            return "grown" if state.alive > self.exact_max_rows else None
        if state.alive <= self.exact_max_rows / 2:
            return "shrunk"
        if state.dead > MOST_DEAD_SHARE * (state.alive + state.dead):
            return "tombstones"
        if state.full:
            return "full"
        if state.alive > MOST_GROWTH * state.trained_rows:
            return "doubled"
        if _skewed(state):
            return "skewed"
        return "recall" if self._recall_dropped(state) else None

    def _recall_dropped(self, state: TierState) -> bool:
        if state.audited_recall is None or state.age_s is None or state.age_s < RECALL_PAUSE_S:
            return False
        return state.audited_recall < self.recall_target - MOST_RECALL_LOST


def _skewed(state: TierState) -> bool:
    if state.skew is None or state.trained_skew is None:
        return False
    return state.skew > max(MOST_SKEW, SKEW_GROWTH * state.trained_skew)


def training_rows(n_lists: int, rows: int) -> int:
    """The number of rows to train lists on."""
    per_list = TRAINED_AT_MOST_ABOUT // n_lists
    per_list = max(FEWEST_TRAINED_PER_LIST, min(per_list, MOST_TRAINED_PER_LIST))
    return min(rows, n_lists * per_list)


def candidates_for(depth: int) -> int | None:
    """The number of candidates to fetch from the lists; None if they cannot return enough."""
    wanted = max(depth + LEAST_EXTRA_CANDIDATES, min(2 * depth, MOST_CANDIDATES))
    return wanted if wanted <= MOST_CANDIDATES else None


def probes_for(n_probes: int, n_lists: int, passing: float) -> int:
    """The number of lists to probe where only a share of the rows passes a filter.

    The number of passing rows read is then as large as without the filter. With fewer probes
    recall drops, from .99 to .84 where one row in 20 passes. Other rows are skipped before their
    vectors are read.

    Args:
        n_probes: Sufficient where all rows pass.
        n_lists: The number of lists.
        passing: The share of passing rows, above 0.
    """
    return min(n_lists, math.ceil(n_probes / passing))


def widened(k: int, n_probes: int, n_lists: int) -> tuple[int, int] | None:
    """The next `k` and `n_probes` of a search with too few results; None if only a scan is left."""
    if k == MOST_CANDIDATES and n_probes == n_lists:
        return None
    return min(WIDER * k, MOST_CANDIDATES), min(WIDER * n_probes, n_lists)


def probe_steps(n_lists: int) -> Iterator[int]:
    """The numbers of probes that a calibration tries, ending with all lists.

    Powers of two and the midpoints between them, since the cost doubles with the probes.
    """
    power = 1
    while power < n_lists:
        steps = dict.fromkeys((power, power * 3 // 2))
        yield from (probes for probes in steps if probes < n_lists)
        power *= 2
    yield n_lists


def calibration_target(target: float) -> float:
    """The recall that a calibration must reach so that real queries reach the target."""
    return target + CALIBRATION_MARGIN * (1 - target)


def chosen_probes(curve: Sequence[CurvePoint], target: float) -> int:
    """The fewest probes of the curve that reach the target; its last point may be all lists."""
    return next(point.n_probes for point in curve if point.recall >= target)


def expected_share(list_sizes: Sequence[int], n_probes: int) -> float:
    """The share of rows that a search reads, if lists are probed in proportion to their size."""
    rows = sum(list_sizes)
    if not rows or n_probes >= len(list_sizes):
        return 1.0
    return min(1.0, n_probes * sum(size * size for size in list_sizes) / rows**2)
