"""What the service counts of the questions that it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import grpc
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo

from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.domain.ranking.profile import LegSpec, Profile
from serving.pipeline.retrieval.admission import MIN_CONCURRENCY, NOTHING, SHED_REASON, Admission
from serving.pipeline.retrieval.legs.leg import Leg
from serving.rpc.service import TriviumService
from serving.telemetry import ANSWERS, ANSWERS_BY_LEG_ALONE, SHED, Metric, Recorder
from tests.fakes.pipeline import FixedLeg
from tests.support.builders import A_DAY_LATER, TENANT, segment
from tests.support.stepped_clock import SteppedClock
from tests.unit.pipeline.retrieval.retrieving import retriever, soon, store_of
from tests.unit.rpc.calling import Call, service_over
from trivium.v1 import retrieval_service_pb2


class CountingRecorder:
    """Adds up each metric by its labels."""

    def __init__(self) -> None:
        self.sums: dict[Metric, Counter[tuple[str, ...]]] = {}

    def record(self, metric: Metric, value: float, labels: Mapping[str, str] | None = None) -> None:
        sums = self.sums.setdefault(metric, Counter())
        sums[tuple((labels or {}).values())] += round(value)


async def counted(
    legs: Mapping[str, Leg],
    overrides: Mapping[str, Any],
    *,
    admission: Admission | None = None,
    context: Call | None = None,
) -> tuple[CountingRecorder, retrieval_service_pb2.RetrieveResponse]:
    """What is recorded of one answer, and the answer."""
    recorder = CountingRecorder()
    service = await service_of(legs, recorder=recorder, admission=admission)
    request = retrieval_service_pb2.RetrieveRequest(
        tenant="acme", query="?", profile="recollection"
    )
    request.profile_overrides.update(overrides)
    return recorder, await service.Retrieve(request, context or Call())


async def service_of(
    legs: Mapping[str, Leg],
    *,
    recorder: Recorder | None = None,
    admission: Admission | None = None,
) -> TriviumService:
    """A service with these legs over three segments."""
    store = await store_of(*(segment(name, f"text {name}") for name in "abc"))
    use_cases = {"retriever": retriever(store, legs, admission=admission), "store": store}
    return service_over(use_cases, recorder=recorder, now=lambda: A_DAY_LATER)


async def test_leg_is_counted_for_hits_found_alone() -> None:
    legs = {"lexical": FixedLeg("a b"), "dense": FixedLeg("b c"), "graph": FixedLeg("b")}

    recorder, _ = await counted(legs, {"legs": {"graph": {}}})

    assert recorder.sums[ANSWERS] == {("recollection",): 1}
    assert recorder.sums[ANSWERS_BY_LEG_ALONE] == {
        ("recollection", "lexical"): 1,
        ("recollection", "dense"): 1,
    }


async def test_leg_without_shown_hits_is_not_counted() -> None:
    legs = {"lexical": FixedLeg("a b"), "dense": FixedLeg("a b c")}

    recorder, _ = await counted(legs, {"limit": 2})

    assert ANSWERS_BY_LEG_ALONE not in recorder.sums


async def test_signals_are_not_counted_as_finders() -> None:
    _, answer = await counted({"lexical": FixedLeg("a b"), "dense": FixedLeg("b")}, {})

    assert {hit.segment.id: list(hit.legs) for hit in answer.hits} == {
        "a": ["lexical"],
        "b": ["lexical", "dense"],
    }


class Shedding(Admission):
    """Admits every question without the graph."""

    @contextmanager
    def admitted(
        self,
        tenant: TenantName,
        profile: Profile,
        deadline: Deadline,
        required: frozenset[str] = NOTHING,
    ) -> Iterator[frozenset[str]]:
        with super().admitted(tenant, profile, deadline, required):
            yield frozenset({"graph"})


async def test_shed_leg_is_counted_and_reported_skipped() -> None:
    legs = {"lexical": FixedLeg("a b"), "dense": FixedLeg("b"), "graph": FixedLeg("c")}

    recorder, answer = await counted(legs, {"legs": {"graph": {}}}, admission=Shedding())

    assert recorder.sums[SHED] == {("graph",): 1}
    reports = {report.leg: report for report in answer.leg_reports}
    assert reports["graph"].state == retrieval_service_pb2.LEG_STATE_SKIPPED
    assert reports["graph"].reason == SHED_REASON


async def test_a_refusal_is_a_status_with_the_time_to_try_again() -> None:
    context = Call()

    await counted({}, {}, admission=Full(), context=context)

    assert context.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert context.detail(ErrorInfo).reason == "OVERLOADED"
    assert context.detail(RetryInfo).retry_delay.ToTimedelta() > timedelta()


class Full(Admission):
    """Is busy with as many questions as are always admitted; each of those before took a minute."""

    def __init__(self) -> None:
        clock = SteppedClock()
        super().__init__(clock=clock)
        profile, deadline = Profile(name="any", legs=(LegSpec(name="lexical"),)), soon()
        for _ in range(100):
            with self.admitted(TENANT, profile, deadline):
                clock.now += 60
        self._held = [self.admitted(TENANT, profile, deadline) for _ in range(MIN_CONCURRENCY)]
        for each in self._held:
            each.__enter__()
