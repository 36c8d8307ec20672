"""What a load above capacity is said to have done."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import grpc
import pytest

from bench.harness.collection import Query
from bench.harness.load import Call, Run
from bench.harness.results import Record, Result
from bench.speed.overload.figures import (
    CAPACITY,
    NEIGHBOUR,
    OVERLOAD,
    WRITES,
    neighbours_table,
    result_of,
    summary,
    writes_table,
)
from bench.speed.overload.picture import save_picture
from bench.speed.overload.steps import Plan, measure, recovery
from tests.fakes.service import Failure, FakeService
from tests.support.stepped_clock import SteppedClock
from tests.unit.bench.quality.scoring.answers import report, retrieval
from trivium.errors import OverloadedError
from trivium.values import LegState, Retrieval

QUERIES = [Query(id="q", tenant="t", text="?")]
WHOLE = retrieval(reports=[report("lexical"), report("graph")])
SHED = retrieval(reports=[report("lexical"), report("graph", LegState.SKIPPED)])
BUDGET_S = 0.1


def loaded(*calls: Call[Retrieval]) -> Result:
    return result_of(
        Run(calls, 2.0), share=3, rate_per_s=5, budget_s=BUDGET_S, offered_s=2.0, recovery_s=0.5
    )


def test_only_answers_within_the_budget_are_goodput_and_only_those_of_every_leg_are_whole() -> None:
    result = loaded(Call(0.09, WHOLE), Call(0.08, SHED), Call(0.11, WHOLE))

    assert result.throughput_per_s == 1.5
    assert result.measured["goodput_per_s"] == 1.0
    assert result.measured["whole_per_s"] == 0.5
    assert result.measured["leg_states"] == {"graph: skipped": 1}


def test_refusals_and_late_calls_are_shares_of_all_and_no_latency() -> None:
    result = loaded(
        Call(0.05, WHOLE),
        Call(0.002, code="RESOURCE_EXHAUSTED"),
        Call(0.004, code="RESOURCE_EXHAUSTED"),
        Call(0.1, code="DEADLINE_EXCEEDED"),
    )

    assert (result.measured["refused_share"], result.measured["late_share"]) == (0.5, 0.25)
    assert (result.measured["refused_p50_ms"], result.measured["refused_p95_ms"]) == (2, 4)
    assert result.latency is not None
    assert result.latency.max_ms == 50


class Recovering:
    """Refuses, then answers in part, then whole; every call takes a second of the clock."""

    def __init__(self, clock: SteppedClock, *answers: Retrieval | None) -> None:
        self._clock = clock
        self._answers = list(answers)

    async def ask(self, _query: Query) -> Retrieval:
        self._clock.now += 1
        answer = self._answers.pop(0) if self._answers else WHOLE
        if answer is None:
            raise OverloadedError(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy")
        return answer


@pytest.mark.parametrize(
    ("answers", "seconds"),
    [((), 0), ((None,), 1), ((WHOLE, WHOLE, SHED), 3), ((None,) * 30, None)],
)
async def test_an_overload_is_over_when_answers_stay_whole(
    answers: Sequence[Retrieval | None], seconds: float | None
) -> None:
    clock = SteppedClock()

    found = await recovery(
        Recovering(clock, *answers).ask, cycle(QUERIES), 60, since=0, clock=clock
    )

    assert found == seconds


async def test_each_share_of_the_capacity_is_offered_with_each_budget(
    fake_service: FakeService, tmp_path: Path
) -> None:
    full = Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
    fake_service.will_answer("Retrieve", full)
    plan = Plan(
        queries=QUERIES,
        warm_up_calls=2,
        capacity_calls=4,
        budgets_s=(20, 30),
        shares=(0.01, 0.02),
        seconds=0.5,
    )
    taken: list[Result] = []

    await measure(fake_service.address, plan, taken.append)

    capacity, *loads = taken
    assert capacity.scenario == CAPACITY
    assert [
        (each.parameters["budget_ms"], each.parameters["share"], each.scenario) for each in loads
    ] == [
        (20_000, 0.01, OVERLOAD),
        (20_000, 0.02, OVERLOAD),
        (30_000, 0.01, OVERLOAD),
        (30_000, 0.02, OVERLOAD),
    ]
    assert all(each.n >= 1 and not each.errors for each in loads)
    records: list[Record] = [
        each.as_record({"collection": {}, "machine": {}, "versions": {}}) for each in taken
    ]
    assert "20000 ms, 0.02x" in summary(records)
    save_picture(records, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size


async def test_a_tenant_is_measured_alone_and_beside_one_that_floods(
    fake_service: FakeService,
) -> None:
    plan = Plan(
        queries=[*QUERIES, Query(id="q", tenant="other", text="!")],
        warm_up_calls=1,
        capacity_calls=4,
        budgets_s=(20,),
        shares=(0.01, 0.02),
        seconds=0.5,
    )
    taken: list[Result] = []

    await measure(fake_service.address, plan, taken.append)

    neighbours = [each for each in taken if each.scenario == NEIGHBOUR]
    assert [each.parameters["share"] for each in neighbours] == [0, 0.02]
    assert all(each.n >= 1 and not each.errors for each in neighbours)
    # The last calls are those of the tenant alone, and then of both.
    sent = [request.tenant for request in fake_service.requests]
    assert set(sent[-neighbours[1].n - 1 :]) == {"t", "other"}
    table = neighbours_table([each.as_record({}) for each in taken])
    assert "20000 ms, 0.02x" in table


async def test_a_tenant_is_measured_alone_and_beside_one_that_writes(
    fake_service: FakeService,
) -> None:
    full = Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
    fake_service.will_answer("Ingest", *([full] * 3))
    plan = Plan(
        queries=QUERIES,
        warm_up_calls=1,
        capacity_calls=4,
        budgets_s=(20,),
        shares=(0.01,),
        seconds=0.5,
        writers=2,
    )
    taken: list[Result] = []

    await measure(fake_service.address, plan, taken.append)

    alone, beside = (each for each in taken if each.scenario == WRITES)
    assert alone.measured["written_per_s"] == 0
    assert beside.n >= 1
    sent = {getattr(request, "tenant", "") for request in fake_service.requests}
    assert {"bench-flood", "bench-mark-0", "bench-mark-2"} <= sent
    assert "| 2 |" in writes_table([each.as_record({}) for each in taken])
