"""When a vector index changes its shape: every rule and threshold, over numbers alone.

Rows of one kind of one tenant are read exactly until there are many. Then they are in
inverted lists, of which a search probes the nearest, and rows that came since are in a
tail that is read exactly. docs/index.md tells the whole life.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

MOST_CANDIDATES = 256
"""Beyond it cuVS leaves its fast path; whoever wants more is answered exactly."""

LEAST_EXTRA_CANDIDATES = 16
"""More than was asked for, to score again in float32: with as many, float16 lost none of 10."""

LISTS_PER_ROOT_OF_ROWS = 4
"""At 100,000 rows 1,024 lists reach with 6 % of the rows what 316 lists do with 20 %."""

FEWEST_TRAINED_PER_LIST, MOST_TRAINED_PER_LIST = 64, 256
TRAINED_AT_MOST_ABOUT = 262_144
"""Rows; more of them, times more lists, is what makes training long."""

MOST_DEAD_SHARE = 0.2
MOST_GROWTH = 2.0
MOST_SKEW = 8.0
"""The largest list by the mean of all: who probes it reads that much more."""

SKEW_ANEW = 1.25
"""Lists that are as skewed as when they were trained would come out so again."""

CALIBRATION_MARGIN = 0.25
"""Of what a target leaves to miss. A calibration's questions tell recall to half a percent, and
those of callers are less like rows than the rows are that stand for them."""

MOST_RECALL_LOST = 0.02
RECALL_PAUSE_S = 600.0
"""Lists younger than it are not made again for their recall: the next ones would be alike."""

GROWTH_TO_TRY_AGAIN = 1.25
PAUSE_AFTER_FAILURE_S = 600.0

WIDER = 4
"""By how much a search that found too little looks further, each time."""

RebuildReason = Literal["grown", "tombstones", "doubled", "skewed", "recall", "full", "shrunk"]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What probing so many lists was worth on the corpus itself.

    `share` is that of all rows which such a search reads, as expected.
    """

    n_probes: int
    recall: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TierState:
    """The numbers that decide about a rebuild. All but the first two are of lists.

    `skew` is that of `MOST_SKEW`, `trained_skew` what it was at first. Lists are `full` that
    could not be extended.
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
    """A rebuild that memory was too short for, and what it was too short for."""

    rows: int
    at_s: float
    what: str

    def bars(self, rows: int, now_s: float) -> bool:
        """Whether it is too early to try again with so many rows."""
        grown = rows >= GROWTH_TO_TRY_AGAIN * self.rows
        return not grown and now_s - self.at_s < PAUSE_AFTER_FAILURE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPolicy:
    """The thresholds that an operator, or a test, may set.

    Args:
        exact_max_rows: So many living rows are read exactly; beyond it they are in lists.
        recall_target: The share of the true 10 nearest that a search must find.
        least_lists: Fewer are not worth their centres, if there are rows for so many.
        least_rows_per_list: With fewer, centres are noise.
        least_tail: So many rows wait in the tail before lists are extended.
        least_few: So many rows that pass a filter are scored exactly, without the lists.
        few: The same, as a multiple of the rows that a search of the lists scores: none is missed
            for twice the work.
    """

    exact_max_rows: int = 50_000
    recall_target: float = 0.98
    least_lists: int = 32
    least_rows_per_list: int = 32
    least_tail: int = 1024
    least_few: int = 256
    few: float = 2.0

    def n_lists(self, rows: int) -> int:
        """How many lists so many rows are put into."""
        wanted = max(self.least_lists, 8 * round(LISTS_PER_ROOT_OF_ROWS * math.sqrt(rows) / 8))
        return max(1, min(wanted, rows // self.least_rows_per_list))

    def tail_limit(self, n_lists: int) -> int:
        """How many rows the tail may have before lists are extended."""
        return max(self.least_tail, n_lists)

    def are_few(self, allowed: int, rows: int, share: float) -> bool:
        """Whether what a filter lets pass is scored exactly, without the lists.

        Args:
            allowed: How many rows pass.
            rows: How many there are.
            share: Of them, what a search of the lists reads.
        """
        return allowed <= max(self.few * share * rows, self.least_few)

    def rebuild_reason(self, state: TierState) -> RebuildReason | None:
        """Why the rows are to be put into new lists, or out of lists; None if they are not."""
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
        return "recall" if self._recall_sank(state) else None

    def _recall_sank(self, state: TierState) -> bool:
        if state.audited_recall is None or state.age_s is None or state.age_s < RECALL_PAUSE_S:
            return False
        return state.audited_recall < self.recall_target - MOST_RECALL_LOST


def _skewed(state: TierState) -> bool:
    if state.skew is None or state.trained_skew is None:
        return False
    return state.skew > max(MOST_SKEW, SKEW_ANEW * state.trained_skew)


def training_rows(n_lists: int, rows: int) -> int:
    """How many rows lists are trained on."""
    per_list = TRAINED_AT_MOST_ABOUT // n_lists
    per_list = max(FEWEST_TRAINED_PER_LIST, min(per_list, MOST_TRAINED_PER_LIST))
    return min(rows, n_lists * per_list)


def candidates_for(depth: int) -> int | None:
    """How many rows the lists are asked for; None if they cannot give enough of them."""
    wanted = max(depth + LEAST_EXTRA_CANDIDATES, min(2 * depth, MOST_CANDIDATES))
    return wanted if wanted <= MOST_CANDIDATES else None


def probes_for(n_probes: int, n_lists: int, passing: float) -> int:
    """How many lists to probe where only a share of the rows passes a filter.

    As many rows that pass are read as there would be rows without the filter: with fewer probes
    the recall falls, from .99 to .84 where one row in 20 passes. Rows that do not pass are
    skipped before their vectors are read.

    Args:
        n_probes: Enough where all rows pass.
        n_lists: How many there are.
        passing: The share, above 0.
    """
    return min(n_lists, math.ceil(n_probes / passing))


def widened(k: int, n_probes: int, n_lists: int) -> tuple[int, int] | None:
    """How a search that found too little looks further; None if it can only read all rows."""
    if k == MOST_CANDIDATES and n_probes == n_lists:
        return None
    return min(WIDER * k, MOST_CANDIDATES), min(WIDER * n_probes, n_lists)


def probe_steps(n_lists: int) -> Iterator[int]:
    """The numbers of probes that a calibration tries, and all lists at last.

    Powers of two and what lies half-way: a search costs what it reads, and twice as much is a lot.
    """
    power = 1
    while power < n_lists:
        steps = dict.fromkeys((power, power * 3 // 2))
        yield from (probes for probes in steps if probes < n_lists)
        power *= 2
    yield n_lists


def aimed_recall(target: float) -> float:
    """What a calibration aims at so that callers get the target."""
    return target + CALIBRATION_MARGIN * (1 - target)


def chosen_probes(curve: Sequence[CurvePoint], target: float) -> int:
    """The fewest probes of the curve that reach the target; all lists reach any."""
    return next(point.n_probes for point in curve if point.recall >= target)


def expected_share(list_sizes: Sequence[int], n_probes: int) -> float:
    """The share of all rows that a search reads, lists being probed as often as they are large."""
    rows = sum(list_sizes)
    if not rows or n_probes >= len(list_sizes):
        return 1.0
    return min(1.0, n_probes * sum(size * size for size in list_sizes) / rows**2)
