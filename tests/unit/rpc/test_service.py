"""The service itself: its configuration, health, metrics and traces."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from starlette.requests import Request

from serving.adapters.open_telemetry import OpenTelemetryTracer
from serving.config.profiles import ProfileBook
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError
from serving.domain.items.records import TenantName, segment_id
from serving.domain.ranking.profile import Profile
from serving.http.calls import HttpCall
from serving.pipeline.retrieval.admission import NOTHING, SHED_REASON, Admission
from serving.pipeline.retrieval.legs.leg import Leg
from serving.pipeline.writes.ingest import Ingestor
from serving.ports.embedding import EmbeddingModel
from serving.rpc import health
from serving.rpc.health import Health
from serving.rpc.retrieval_service import to_requests
from serving.rpc.service import TriviumService
from serving.telemetry import ANSWERS, ANSWERS_BY_LEG_ALONE, SHED, Metric, Recorder
from tests.fakes.meaning import FAKE_MODEL, FakeEmbedder
from tests.fakes.pipeline import BrokenLeg, FixedLeg, RecordingAccess
from tests.fakes.store import InMemoryStore
from tests.support.builders import A_DAY_LATER, NOON, TENANT, fact, segment
from tests.support.refusals import refused_for
from tests.unit.pipeline.retrieval.retrieving import retriever, store_of
from tests.unit.rpc.calling import Call, service_over
from trivium.v1 import catalog_service_pb2, ingest_service_pb2, segment_pb2
from trivium.v1 import retrieval_service_pb2 as pb


class OddBook(ProfileBook):
    """Fails in a way that nobody has thought of."""

    def reconfigured(self, changes: Any) -> ProfileBook:
        raise RecursionError("/a/path/of/ours")


@pytest.fixture
def service() -> TriviumService:
    return service_over()


def test_changes_are_laid_over_the_profiles_of_the_start(service: TriviumService) -> None:
    service.reconfigure({"profiles": {"default": {"limit": 13}}})
    service.reconfigure({"profiles": {"annie": {"limit": 4}}})

    assert service.profiles["default"].limit == ProfileBook.load()["default"].limit
    assert service.profiles["annie"].limit == 4


@pytest.mark.parametrize(
    ("user_config", "said"),
    [
        ({"profiles": {"mine": {"extends": ["default"]}}}, "profile 'mine': extends"),
        ({"profile": {}}, "unknown field 'profile'; only 'profiles' can be set"),
    ],
)
def test_bad_reconfiguration_keeps_profiles_and_is_reported(
    service: TriviumService, user_config: Any, said: str
) -> None:
    service.reconfigure({"profiles": {"default": {"limit": 13}}})

    service.reconfigure(user_config)

    assert service.profiles["default"].limit == 13
    assert service.rejected_profiles.startswith(said)


def test_unexpected_reconfiguration_error_is_reported_without_quoting() -> None:
    service = TriviumService(cast(Any, None), OddBook.load())
    before = service.profiles

    service.reconfigure({"profiles": {}})

    assert service.profiles is before
    assert service.rejected_profiles == "unexpected error, see the log"


def test_mended_profile_is_no_longer_reported(service: TriviumService) -> None:
    service.reconfigure({"profiles": {"default": {"limit": 0}}})
    service.reconfigure({"profiles": {"default": {"limit": 15}}})

    assert (service.profiles["default"].limit, service.rejected_profiles) == (15, "")


async def test_comparison_records_no_access() -> None:
    access = RecordingAccess()
    store = await store_of(segment("a"))
    service = service_over({"retriever": retriever(store, {"dense": FixedLeg("a")}, access=access)})
    asked = pb.RetrieveRequest(tenant=TENANT, query="?", profile="two_stage_baseline")

    compared = await service.Compare(pb.CompareRequest(retrieve=asked, against="default"), Call())
    before = list(access.recorded)
    await service.Retrieve(asked, Call())

    assert len(compared.rank_changes) == 1
    assert before == []
    assert access.recorded == [segment_id("a")]


async def test_requests_of_a_batch_fail_alone() -> None:
    store = await store_of(segment("a"))
    service = service_over({"retriever": retriever(store, {"dense": FixedLeg("a")})})
    asked = pb.RetrieveRequest(query="?", profile="two_stage_baseline", explain=True)
    wrong = pb.RetrieveRequest(tenant=TENANT, query="?", profile="unknown")

    batch = pb.RetrieveBatchRequest(tenant=TENANT, requests=[asked, wrong, asked])
    answered = await service.RetrieveBatch(batch, Call())
    asked.tenant = TENANT
    alone = await service.Retrieve(asked, Call())

    first, failed, last = answered.results
    assert [*first.response.hits] == [*last.response.hits] == [*alone.hits]
    assert failed.error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert "profile: must be one of" in failed.error.message


@pytest.mark.parametrize(
    ("requests", "field"),
    [
        ([], "requests"),
        ([pb.RetrieveRequest()] * 17, "requests"),
        ([pb.RetrieveRequest(), pb.RetrieveRequest(tenant="other")], "requests[1].tenant"),
    ],
)
def test_batch_of_many_or_other_tenants_is_rejected(
    requests: list[pb.RetrieveRequest], field: str
) -> None:
    with refused_for(field):
        to_requests(pb.RetrieveBatchRequest(tenant=TENANT, requests=requests))


class LostEmbedder(FakeEmbedder):
    """An embedder that cannot be reached."""

    async def model(self) -> EmbeddingModel:
        raise DependencyError("embedder", "it was stopped by the test")


def ingesting(embedder: FakeEmbedder) -> TriviumService:
    """A service that stores in memory."""
    ingestor = Ingestor(InMemoryStore())
    return service_over({"ingestor": ingestor, "embedder": embedder})


def batch(*vector: float) -> ingest_service_pb2.IngestRequest:
    """A segment, with a vector if there is one."""
    said = segment_pb2.Segment(id="a", text="We sailed.")
    if vector:
        said.embedding.model_fingerprint = FAKE_MODEL.fingerprint
        said.embedding.values.extend(vector)
    item = ingest_service_pb2.IngestItem(segment=said)
    return ingest_service_pb2.IngestRequest(tenant=TENANT, items=[item])


async def test_a_vector_is_compared_with_the_model_of_the_service() -> None:
    service = ingesting(FakeEmbedder())

    response = await service.Ingest(batch(1.0), Call())

    (violation,) = response.outcomes[0].violations
    assert violation.description == "must have the model's 16 dimensions, has 1"


async def test_a_write_needs_no_embedder_unless_it_brings_a_vector() -> None:
    service = ingesting(LostEmbedder())
    with_vector, without = Call(), Call()

    await service.Ingest(batch(1.0), with_vector)
    stored = await service.Ingest(batch(), without)

    assert with_vector.code is grpc.StatusCode.UNAVAILABLE
    assert stored.outcomes[0].state == ingest_service_pb2.ITEM_STATE_CREATED


async def test_dry_run_counts_speakers_and_erases_nothing() -> None:
    speakers = ["j.doe", "J.Doe", "j.doe", "j-doe"]
    turns = [segment(str(place), speaker=name) for place, name in enumerate(speakers)]
    store = await store_of(*turns, fact("f", "x", "y", "z", evidence=("0", "1", "2")))
    service = service_over({"store": store})
    request = ingest_service_pb2.ForgetRequest(tenant=TENANT, speaker="j.doe", dry_run=True)

    counted = await service.Forget(request, Call())

    named = [(each.speaker, each.segment_count) for each in counted.speakers]
    assert named == [("j.doe", 2), ("J.Doe", 1)]
    assert (counted.segment_count, counted.fact_count) == (3, 1)
    assert not counted.receipts
    assert await store.count(TENANT, [turn.item for turn in turns]) == 4


async def test_expired_items_are_read_by_no_id() -> None:
    store = await store_of(
        segment("a", expires_at=NOON),
        segment("b", expires_at=A_DAY_LATER),
        fact("f", "x", "y", "z", evidence=("a",)),
    )
    service = service_over({"store": store}, now=lambda: NOON)
    segments = catalog_service_pb2.GetSegmentsRequest(tenant=TENANT, ids=["a", "b"])
    facts = catalog_service_pb2.GetFactsRequest(tenant=TENANT, ids=["f"])

    found = await service.GetSegments(segments, Call())

    assert [each.id for each in found.segments] == ["b"]
    assert list(found.missing_ids) == ["a"]
    assert (await service.GetFacts(facts, Call())).missing_ids == ["f"]


async def test_profiles_are_listed_in_pages(service: TriviumService) -> None:
    names: list[str] = []
    page = pb.ListProfilesResponse()
    while not names or page.next_page_token:
        request = pb.ListProfilesRequest(page_size=2, page_token=page.next_page_token)
        page = await service.ListProfiles(request, Call())
        assert 1 <= len(page.profiles) <= 2
        names += [profile.name for profile in page.profiles]

    assert names == sorted(service.profiles)


async def test_watch_of_health_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "WATCH_S", 0.01)
    monkeypatch.setattr(health, "POLL_S", 0.0)
    service = service_over({"store": InMemoryStore()})

    watch = service.Watch(health_pb2.HealthCheckRequest(), cast(Any, None))

    seen = [response.status async for response in watch]

    assert seen == [health_pb2.HealthCheckResponse.SERVING]


WATCHERS = 100


class Store:
    """Can be reached or not; lets go of one reading at a time."""

    def __init__(self) -> None:
        self.is_ready = True
        self.readings = 0
        self.read = asyncio.Semaphore(0)

    async def ready(self) -> bool:
        await self.read.acquire()
        self.readings += 1
        return self.is_ready


async def test_all_watchers_share_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "POLL_S", 0.0)
    store = Store()
    shared = Health(store.ready)
    watchers = [shared.watch() for _ in range(WATCHERS)]
    seen = [asyncio.create_task(anext(watcher)) for watcher in watchers]
    await asyncio.sleep(0)

    store.read.release()
    assert await asyncio.gather(*seen) == [True] * WATCHERS
    assert store.readings == 1
    assert len(asyncio.all_tasks()) < WATCHERS

    changes = [asyncio.create_task(anext(watcher)) for watcher in watchers]
    store.is_ready = False
    store.read.release()
    assert await asyncio.gather(*changes) == [False] * WATCHERS
    assert store.readings == 2
    for watcher in watchers:
        await watcher.aclose()


async def test_health_nobody_watches_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "POLL_S", 0.0)
    store = Store()
    shared = Health(store.ready)
    store.read.release()
    watcher = shared.watch()
    await anext(watcher)
    await watcher.aclose()
    await asyncio.sleep(0)
    store.is_ready = False

    later = shared.watch()
    first = asyncio.create_task(anext(later))
    await asyncio.sleep(0)
    assert (store.readings, first.done()) == (1, False)
    store.read.release()

    # What was known before anyone watched again is not told.
    assert await first is False
    await later.aclose()


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
) -> tuple[CountingRecorder, pb.RetrieveResponse]:
    """What is recorded of one answer, and the answer."""
    recorder = CountingRecorder()
    service = await service_of(legs, recorder=recorder, admission=admission)
    request = pb.RetrieveRequest(tenant="acme", query="?", profile="recollection")
    request.profile_overrides.update(overrides)
    return recorder, await service.Retrieve(request, Call())


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
    assert reports["graph"].state == pb.LEG_STATE_SKIPPED
    assert reports["graph"].reason == SHED_REASON


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
SECRET = "where is zanzibar"


async def spans_of(
    service: TriviumService, flags: str = "01", **fields: Any
) -> dict[str, ReadableSpan]:
    """The spans of one question, by name."""
    exporter = InMemorySpanExporter()
    service.tracer = tracer = OpenTelemetryTracer(exporter)
    request = pb.RetrieveRequest(tenant="acme", query=SECRET, **fields)
    await service.Retrieve(request, Call([("traceparent", f"00-{TRACE}-{CALLER}-{flags}")]))
    await asyncio.sleep(0)  # spans are made in the next iteration of the loop
    tracer.close()
    return {span.name: span for span in exporter.get_finished_spans()}


LEGS = {
    "lexical": FixedLeg("a b"),
    "graph": BrokenLeg(DependencyError("graph", "Neo4j cannot be reached")),
}


async def test_answer_has_a_span_for_each_step() -> None:
    service = await service_of(LEGS)

    spans = await spans_of(service, profile="default")

    call = spans["trivium.v1.RetrievalService/Retrieve"]
    assert call.kind is SpanKind.SERVER
    assert dict(call.attributes or {}) == {
        "rpc.system.name": "grpc",
        "rpc.method": "trivium.v1.RetrievalService/Retrieve",
        "rpc.response.status_code": "OK",
    }
    lexical, graph = spans["leg lexical"], spans["leg graph"]
    assert dict(lexical.attributes or {}) == {
        "trivium.leg": "lexical",
        "trivium.leg.state": "ok",
        "trivium.leg.candidates": 2,
        "db.system.name": "postgresql",
    }
    assert (lexical.kind, lexical.status.status_code) == (SpanKind.CLIENT, StatusCode.UNSET)
    assert (graph.attributes or {})["error.type"] == "failed"
    assert graph.status.status_code is StatusCode.ERROR
    assert {"load rows", "rank"} < spans.keys()
    assert all(
        span.parent is not None and span.parent.span_id == call.context.span_id
        for span in spans.values()
        if span is not call
    )
    assert SECRET not in str([span.to_json() for span in spans.values()])


async def test_trace_of_the_caller_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    service = await service_of(LEGS)

    with caplog.at_level(logging.INFO, "serving.rpc.boundary"):
        spans = await spans_of(service, profile="default")

    assert {span.context.trace_id for span in spans.values()} == {int(TRACE, 16)}
    [call] = [span for span in spans.values() if span.kind is SpanKind.SERVER]
    assert call.parent is not None
    assert call.parent.span_id == int(CALLER, 16)
    assert caplog.records[-1].__dict__["trace_id"] == TRACE


async def test_rejected_call_ends_its_span_with_its_code() -> None:
    spans = await spans_of(await service_of(LEGS), profile="none such")

    [call] = spans.values()
    assert (call.attributes or {})["rpc.response.status_code"] == "INVALID_ARGUMENT"
    assert call.status.status_code is StatusCode.UNSET, "it is the caller's fault"


def test_trace_of_an_http_caller_is_read() -> None:
    headers = [(b"traceparent", b"00-abc"), (b"x-other", b"1")]

    call = HttpCall(Request({"type": "http", "headers": headers}))

    assert call.invocation_metadata() == [("traceparent", "00-abc")]


async def test_unsampled_trace_of_a_caller_is_not_recorded() -> None:
    assert await spans_of(await service_of(LEGS), "00", profile="default") == {}
