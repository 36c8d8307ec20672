"""Calls that wait for their method, and bytes that are no message, in a real server."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest

from serving.rpc import pending, registration
from serving.rpc.boundary import rpc
from serving.rpc.identity.authenticator import OPEN
from serving.rpc.pending import (
    MAX_READING,
    PENDING_CALLS,
    READ_AGAIN_S,
    READ_BACKLOG_AGAIN_S,
    PendingCalls,
)
from serving.rpc.registration import Malformed
from serving.telemetry import NoRecorder
from tests.support.stepped_clock import SteppedClock
from tests.support.waiting import until_async
from trivium.errors import InvalidRequestError, to_error
from trivium.v1 import catalog_service_pb2 as catalog
from trivium.v1.retrieval_service_pb2 import RetrieveRequest, RetrieveResponse

METHOD = "/trivium.test.Held/Call"
QUESTION = RetrieveRequest(tenant="acme", query="Where is Zanzibar?").SerializeToString()


class Held:
    """A server whose calls stay until they are let go."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.calls = PendingCalls(self.clock)
        self.arrived = 0
        self.let_go = asyncio.Event()

    async def begun(self, request: RetrieveRequest, context: object) -> RetrieveRequest:
        del context
        self.arrived += 1
        with self.calls.in_method():
            await self.let_go.wait()
        return request

    async def not_begun(self, request: RetrieveRequest, context: object) -> RetrieveRequest:
        """As if the event loop had not come to it."""
        del context
        self.arrived += 1
        await self.let_go.wait()
        return request

    recorder = NoRecorder()
    tracer = None
    authenticator = OPEN

    @rpc(RetrieveResponse)
    async def Retrieve(self, request: RetrieveRequest) -> RetrieveResponse:  # noqa: N802
        """Begun as every RPC is."""
        del request
        self.arrived += 1
        await self.let_go.wait()
        return RetrieveResponse()

    async def has(self, arrived: int) -> bool:
        return self.arrived == arrived

    def count(self) -> int:
        self.clock.now += READ_AGAIN_S
        return self.calls.count()


@asynccontextmanager
async def calling(held: Held, behavior: Any, calls: int) -> AsyncIterator[None]:
    """A number of calls, which have arrived."""
    server = grpc.aio.server()
    handler: Any = grpc.unary_unary_rpc_method_handler(
        behavior,
        request_deserializer=RetrieveRequest.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
    services = grpc.method_handlers_generic_handler("trivium.test.Held", {"Call": handler})
    server.add_generic_rpc_handlers((services,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call: Any = channel.unary_unary(METHOD)
            made = [call(QUESTION, timeout=30) for _ in range(calls)]
            await until_async(lambda: held.has(calls))
            yield
            held.let_go.set()
            await asyncio.gather(*made)
    finally:
        await server.stop(grace=None)


async def test_calls_not_yet_begun_are_pending_until_end() -> None:
    held = Held()
    before = held.count()

    async with calling(held, held.not_begun, 3):
        assert held.count() == before + 3

    async def none() -> bool:
        return held.count() == before

    await until_async(none)


async def test_calls_in_a_method_are_not_pending() -> None:
    held = Held()
    before = held.count()

    async with calling(held, held.begun, 3):
        assert held.count() == before


async def test_an_rpc_is_in_a_method_until_it_is_answered() -> None:
    held = Held()

    async def none_pending() -> bool:
        return PENDING_CALLS.count() == 0

    async with calling(held, held.Retrieve, 3):
        await until_async(none_pending)


async def test_the_counters_are_read_again_after_a_while() -> None:
    held = Held()
    before = held.count()

    async with calling(held, held.not_begun, 1):
        held.clock.now += READ_AGAIN_S / 2
        assert held.calls.count() == before

        held.clock.now += READ_AGAIN_S / 2
        assert held.calls.count() == before + 1


async def test_backlog_is_read_again_sooner() -> None:
    held = Held()

    async with calling(held, held.not_begun, 3):
        backlog = held.count()
        with held.calls.opened():
            held.clock.now += READ_BACKLOG_AGAIN_S
            assert held.calls.count() == backlog + 1


def test_slow_reading_pauses_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, readings = SteppedClock(), 0

    def read() -> int:
        nonlocal readings
        readings += 1
        clock.now += READ_AGAIN_S
        return 0

    monkeypatch.setattr(pending, "_open_calls", read)
    calls = PendingCalls(clock)
    calls.count()
    clock.now += 0.9 * READ_AGAIN_S / MAX_READING
    calls.count()
    assert readings == 1

    clock.now += 0.1 * READ_AGAIN_S / MAX_READING
    calls.count()
    assert readings == 2


async def test_pending_count_is_never_negative() -> None:
    calls = PendingCalls()

    with calls.in_method():
        assert calls.count() == 0


NOT_UTF8 = b"\x0a\x01\xff"  # field 1, a string of one byte


class Methods:
    """Returns the ids of the request; the other methods are never called."""

    recorder = NoRecorder()
    tracer = None
    authenticator = OPEN

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(name=name)

    @rpc(catalog.GetSegmentsResponse)
    async def GetSegments(  # noqa: N802
        self, request: catalog.GetSegmentsRequest
    ) -> catalog.GetSegmentsResponse:
        return catalog.GetSegmentsResponse(missing_ids=request.ids)


@pytest.fixture
async def get_segments() -> AsyncIterator[Any]:
    """The method, called with bytes."""
    server = grpc.aio.server()
    registration.add_catalog_service(Methods(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel.unary_unary("/trivium.v1.CatalogService/GetSegments")
    await server.stop(grace=None)


async def test_undecodable_request_is_rejected_with_details(get_segments: Any) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        await get_segments(NOT_UTF8)

    error = to_error(refused.value)
    assert isinstance(error, InvalidRequestError)
    assert (error.reason, error.violations[0].field) == ("INVALID_FIELD", "request")


async def test_a_message_arrives_as_it_was_sent(get_segments: Any) -> None:
    request = catalog.GetSegmentsRequest(tenant="acme", ids=["a", "b"])

    answered = catalog.GetSegmentsResponse.FromString(
        await get_segments(request.SerializeToString())
    )

    assert list(answered.missing_ids) == ["a", "b"]


def test_malformed_request_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(Malformed())) == Malformed()


class RecordingServer:
    """Keeps the services that are added, and knows no other way to add one."""

    def __init__(self) -> None:
        self.services: list[str] = []

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        self.services += [handler.service_name() for handler in handlers]


@pytest.mark.parametrize(
    ("add", "full_name"),
    [
        (registration.add_retrieval_service, "trivium.v1.RetrievalService"),
        (registration.add_ingest_service, "trivium.v1.IngestService"),
        (registration.add_catalog_service, "trivium.v1.CatalogService"),
        (registration.add_admin_service, "trivium.v1.AdminService"),
    ],
)
def test_service_is_added_once_by_generic_handler(add: Any, full_name: str) -> None:
    server = RecordingServer()

    add(Methods(), server)

    assert server.services == [full_name]
