"""What only the asyncio client does; tests of the blocking one, made of it, cover the rest."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from datetime import timedelta

import grpc
import pytest

from tests.fakes.service import Failure, FakeService
from trivium import AsyncClient, Client, OverloadedError, Segment, Transcript
from trivium.v1.ingest_service_pb2 import IngestStreamResponse
from trivium.v1.retrieval_service_pb2 import (
    RetrieveResponse,
    RetrieveStreamResponse,
    WarmPart,
    WarmResponse,
)


def test_clients_have_the_same_methods_and_arguments() -> None:
    def signatures(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_") or name == "__init__"
        }

    assert signatures(AsyncClient) == signatures(Client)


def test_client_made_without_an_event_loop_is_refused() -> None:
    with pytest.raises(RuntimeError, match="make it in a coroutine"):
        AsyncClient("127.0.0.1:1", tenant="acme")


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


async def test_transcript_is_a_request_with_its_own_budget(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    answer = RetrieveStreamResponse(
        retrieved=RetrieveResponse(briefing="<memory></memory>"), request_number=2, final=True
    )
    fake_service.will_answer("RetrieveStream", answer)
    said = [Transcript("when is"), Transcript("when is it?", final=True)]

    answers = async_client.retrieve_stream(said, timeout=10, profile="annie")

    (found,) = [each async for each in answers]
    assert found.retrieval.briefing == "<memory></memory>"
    assert (found.transcript_number, found.final) == (2, True)
    sent = fake_service.request()
    texts = [(each.retrieve.query, each.final) for each in sent]
    assert texts == [("when is", False), ("when is it?", True)]
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

    told = [(each.part, each.warm, each.reason) for each in parts]
    assert told == [("names", True, ""), ("graph", False, "graph: refused")]
    assert fake_service.request().profile == "annie"
    assert fake_service.request().time_budget.ToTimedelta() == timedelta(seconds=9)


@pytest.mark.parametrize(("given", "sent"), [("", "Europe/Lisbon"), ("Asia/Tokyo", "Asia/Tokyo")])
async def test_write_has_time_zone_of_call_or_client(
    fake_service: FakeService, given: str, sent: str
) -> None:
    async with AsyncClient(
        fake_service.address, tenant="acme", time_zone="Europe/Lisbon"
    ) as client:
        await client.ingest([Segment(id="a", text="hi")], time_zone=given)

    assert fake_service.request().time_zone == sent


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
