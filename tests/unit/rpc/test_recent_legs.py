"""How the legs have answered in the last minutes."""

from __future__ import annotations

from serving.pipeline.retrieval.leg_runner import LegReport, LegState
from serving.rpc.items import duration
from serving.rpc.recent_legs import MAX_ANSWERS, WITHIN_S, RecentLegs
from tests.support.stepped_clock import SteppedClock
from trivium.v1.catalog_service_pb2 import LegStats


def report(leg: str, elapsed_s: float, state: LegState = LegState.OK) -> LegReport:
    return LegReport(leg=leg, state=state, elapsed_s=elapsed_s)


def test_legs_have_states_and_latencies_of_answers() -> None:
    recent = RecentLegs(SteppedClock())
    recent.add([report("lexical", 0.004), report("graph", 0.1, LegState.TIMED_OUT)])
    recent.add([report("lexical", 0.002), report("graph", 0.0, LegState.SKIPPED)])
    recent.add([report("lexical", 0.009)])

    graph, lexical = recent.activities()

    assert lexical == LegStats(
        leg="lexical", answer_count=3, p50=duration(0.004), p95=duration(0.009)
    )
    assert graph == LegStats(
        leg="graph",
        answer_count=2,
        timed_out_count=1,
        skipped_count=1,
        p50=duration(0.1),
        p95=duration(0.1),
    )


def test_answers_of_long_ago_are_left_out() -> None:
    clock = SteppedClock()
    recent = RecentLegs(clock)
    recent.add([report("graph", 0.1), report("lexical", 0.1)])
    clock.now += WITHIN_S + 1
    recent.add([report("lexical", 0.2)])

    (lexical,) = recent.activities()

    assert (lexical.leg, lexical.p50, lexical.answer_count) == ("lexical", duration(0.2), 1)


def test_memory_of_answers_is_bounded() -> None:
    recent = RecentLegs(SteppedClock())
    for _ in range(MAX_ANSWERS + 5):
        recent.add([report("lexical", 0.1)])

    assert recent.activities()[0].answer_count == MAX_ANSWERS
