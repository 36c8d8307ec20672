from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from datetime import timedelta

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2

from tests.fakes.service import Failure, FakeService
from trivium import (
    AsyncClient,
    Client,
    Health,
    OverloadedError,
    Segment,
    Transcript,
    UnavailableError,
)
from trivium.v1.catalog_service_pb2 import ListFactsResponse, ListSegmentsResponse
from trivium.v1.fact_pb2 import Fact
from trivium.v1.ingest_service_pb2 import IngestStreamResponse
from trivium.v1.retrieval_service_pb2 import (
    RetrieveResponse,
    RetrieveStreamResponse,
    WarmPart,
    WarmResponse,
)
from trivium.v1.segment_pb2 import Segment as SegmentMessage


def test_clients_have_the_same_methods_and_arguments() -> None:
    def signatures(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_") or name == "__init__"
        }

    assert signatures(AsyncClient) == signatures(Client)


async def test_timeout_sets_deadline_and_budget(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    await async_client.retrieve("why?", timeout=100)

    assert fake_service.deadlines_s == [pytest.approx(100, rel=0.1)]
    assert fake_service.request().time_budget.ToTimedelta() == timedelta(seconds=90)


async def test_unavailable_is_tried_again(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    fake_service.will_answer("Retrieve", *[Failure(grpc.StatusCode.UNAVAILABLE)] * 3)

    await async_client.retrieve("why?")

    assert len(fake_service.requests) == 4


async def test_error_is_decoded(async_client: AsyncClient, fake_service: FakeService) -> None:
    details = [
        error_details_pb2.ErrorInfo(reason="OVERLOADED", domain="trivium.v1"),
        error_details_pb2.RetryInfo(retry_delay=Duration(seconds=1)),
    ]
    failure = Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue is full", details)
    fake_service.will_answer("Retrieve", failure)

    with pytest.raises(OverloadedError, match="OVERLOADED: the queue is full") as caught:
        await async_client.retrieve("why?")

    assert caught.value.retry_delay == timedelta(seconds=1)


async def test_briefing_is_the_servers_block(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    fake_service.will_answer("Retrieve", RetrieveResponse(briefing="<memory></memory>"))

    assert await async_client.briefing("why?") == "<memory></memory>"


async def test_stream_takes_an_async_iterable(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    fake_service.will_answer("IngestStream", IngestStreamResponse(created_count=3))
    progress: list[int] = []

    async def turns() -> AsyncIterator[Segment]:
        for place in range(3):
            yield Segment(id=str(place), text="hi")

    result = await async_client.ingest_stream(turns(), progress=progress.append)

    (message,) = fake_service.request()
    assert [item.segment.id for item in message.items] == ["0", "1", "2"]
    assert (result.created_count, progress) == (3, [3])


async def test_error_of_items_is_raised_after_earlier_ones(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    async def turns() -> AsyncIterator[Segment]:
        yield Segment(id="a", text="hi")
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await async_client.ingest_stream(turns())

    (message,) = fake_service.request()
    assert [item.segment.id for item in message.items] == ["a"]


async def test_transcript_is_a_request_with_its_own_budget(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    answer = RetrieveStreamResponse(
        retrieved=RetrieveResponse(briefing="<memory></memory>"), request_number=2, final=True
    )
    fake_service.will_answer("RetrieveStream", answer)
    said = [Transcript("when is"), Transcript("when is it?", final=True)]

    answers = [
        each async for each in async_client.retrieve_stream(said, timeout=10, profile="annie")
    ]

    assert [(each.retrieval.briefing, each.transcript_number, each.final) for each in answers] == [
        ("<memory></memory>", 2, True)
    ]
    sent = fake_service.request()
    assert [(each.retrieve.query, each.final) for each in sent] == [
        ("when is", False),
        ("when is it?", True),
    ]
    assert {each.retrieve.profile for each in sent} == {"annie"}
    assert {each.retrieve.time_budget.ToTimedelta() for each in sent} == {timedelta(seconds=9)}


async def test_errors_of_transcript_and_stream_are_raised(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    with pytest.raises(ValueError, match="lone surrogate"):
        [each async for each in async_client.retrieve_stream([Transcript("\ud800")])]

    fake_service.will_answer("RetrieveStream", Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "full"))
    with pytest.raises(OverloadedError):
        [each async for each in async_client.retrieve_stream([Transcript("?", final=True)])]


async def test_cold_parts_are_reported(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    lost = WarmPart(part="graph", reason="graph: refused")
    fake_service.will_answer("Warm", WarmResponse(parts=[WarmPart(part="names", warm=True), lost]))

    parts = await async_client.warm(profile="annie", timeout=10)

    assert [(each.part, each.warm, each.reason) for each in parts] == [
        ("names", True, ""),
        ("graph", False, "graph: refused"),
    ]
    assert fake_service.request().profile == "annie"
    assert fake_service.request().time_budget.ToTimedelta() == timedelta(seconds=9)


async def test_pages_are_read_to_the_end(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    fake_service.will_answer(
        "ListSegments",
        ListSegmentsResponse(segments=[SegmentMessage(id="a")], next_page_token="more"),
        ListSegmentsResponse(segments=[SegmentMessage(id="b")]),
    )
    fake_service.will_answer("ListFacts", ListFactsResponse(facts=[Fact(id="f")]))

    segments = [segment.id async for segment in async_client.list_segments()]
    facts = [fact.id async for fact in async_client.list_facts()]

    assert (segments, facts) == (["a", "b"], ["f"])


async def test_reading_and_writing_calls_reach_the_service(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    await async_client.connect()
    await async_client.ingest([Segment(id="a", text="hi")])
    await async_client.get_segments(["a"])
    await async_client.stats()
    await async_client.for_tenant("other").forget(everything=True)

    names = [type(request).__name__ for request in fake_service.requests]
    tenants = [request.tenant for request in fake_service.requests]
    assert names == ["IngestRequest", "GetSegmentsRequest", "GetStatsRequest", "ForgetRequest"]
    assert tenants == ["acme", "acme", "acme", "other"]


async def test_health_is_asked(async_client: AsyncClient, fake_service: FakeService) -> None:
    fake_service.health.set("", health_pb2.HealthCheckResponse.NOT_SERVING)

    assert await async_client.check() is Health.NOT_SERVING


async def test_connecting_to_nothing_is_unavailable() -> None:
    async with AsyncClient("127.0.0.1:1", tenant="acme") as client:
        with pytest.raises(UnavailableError, match="no connection within the timeout"):
            await client.connect(timeout=0.05)
