"""How the legs have answered in the last minutes, for GetStats."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from serving.pipeline.retrieval.leg_runner import LegReport, LegState

WITHIN_S = 300.0
MAX_ANSWERS = 200
"""Of each leg; under load they are those of the last seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegActivity:
    """The answers of one leg: how many, and the latency of those that were not skipped."""

    leg: str
    states: Counter[LegState]
    p50_s: float
    p95_s: float


class RecentLegs:
    """Keeps the state and latency of each leg of the last answers of this replica."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: dict[str, deque[tuple[float, LegState, float]]] = defaultdict(
            partial(deque, maxlen=MAX_ANSWERS)
        )

    def add(self, reports: Iterable[LegReport]) -> None:
        """Keeps the reports of an answer."""
        now = self._clock()
        for report in reports:
            self._answers[report.leg].append((now, report.state, report.elapsed_s))

    def activities(self) -> list[LegActivity]:
        """The legs with an answer in the last `WITHIN_S`, by name."""
        since = self._clock() - WITHIN_S
        found = []
        for leg, kept in sorted(self._answers.items()):
            recent = [(state, elapsed_s) for at, state, elapsed_s in kept if at >= since]
            ran = sorted(elapsed_s for state, elapsed_s in recent if state != LegState.SKIPPED)
            if recent:
                found.append(
                    LegActivity(
                        leg=leg,
                        states=Counter(state for state, _ in recent),
                        p50_s=_percentile(ran, 0.5),
                        p95_s=_percentile(ran, 0.95),
                    )
                )
        return found


def _percentile(ordered: Sequence[float], share: float) -> float:
    """By nearest rank; 0 of nothing."""
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else 0.0
