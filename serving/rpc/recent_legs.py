"""The outcomes of the legs in the last minutes, for GetStats."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from serving.pipeline.retrieval.leg_runner import LegReport, LegState
from serving.rpc.items import duration
from trivium.v1.catalog_service_pb2 import LegStats

WITHIN_S = 300.0
MAX_ANSWERS = 200
"""Of each leg; under load they are those of the last seconds."""


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

    def activities(self) -> list[LegStats]:
        """The legs with an answer in the last `WITHIN_S`, by name."""
        since = self._clock() - WITHIN_S
        found = []
        for leg, kept in sorted(self._answers.items()):
            recent = [(state, elapsed_s) for at, state, elapsed_s in kept if at >= since]
            ran = sorted(elapsed_s for state, elapsed_s in recent if state != LegState.SKIPPED)
            states = Counter(state for state, _ in recent)
            if recent:
                found.append(
                    LegStats(
                        leg=leg,
                        answer_count=len(recent),
                        timed_out_count=states[LegState.TIMED_OUT],
                        failed_count=states[LegState.FAILED],
                        skipped_count=states[LegState.SKIPPED],
                        p50=duration(_percentile(ran, 0.5)),
                        p95=duration(_percentile(ran, 0.95)),
                    )
                )
        return found


def _percentile(ordered: Sequence[float], share: float) -> float:
    """By nearest rank; 0 of nothing."""
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else 0.0
