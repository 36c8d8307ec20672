"""What callers can hold open, at a real server: calls without a message, and streams."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from serving.domain.errors import OverloadedError, StoreUnavailableError
from serving.domain.identity import Role
from serving.rpc import bounds, pending, registration
from serving.rpc.boundary import rpc, streaming_rpc
from serving.rpc.bounds import BoundedHandlers, OpenStreams, OpenToAnyone
from serving.rpc.identity.authenticator import OPEN, Authenticator
from serving.rpc.message_bounds import QUESTION as BOUNDS
from serving.rpc.pending import (
    MAX_READING,
    PENDING_CALLS,
    READ_AGAIN_S,
    READ_BACKLOG_AGAIN_S,
    PendingCalls,
)
from serving.rpc.registration import Malformed
from tests.support.stepped_clock import SteppedClock
from tests.support.waiting import until_async
from tests.unit.http.requesting import FakeRpcs
from tests.unit.rpc.identity.callers import FakeApiKeys, ring_of
from trivium.aio import AsyncClient
from trivium.errors import InvalidRequestError, UnavailableError, to_error
from trivium.v1 import catalog_service_pb2 as catalog
from trivium.v1 import ingest_service_pb2 as ingest
from trivium.v1 import retrieval_service_pb2 as retrieval

RETRIEVE = "/trivium.v1.RetrievalService/Retrieve"
RETRIEVE_STREAM = "/trivium.v1.RetrievalService/RetrieveStream"
INGEST_STREAM = "/trivium.v1.IngestService/IngestStream"
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
QUESTION = retrieval.RetrieveRequest(query="Where is Zanzibar?").SerializeToString()
MOST = 4

Metadata = Sequence[tuple[str, str]]


class Service(FakeRpcs):
    """Answers at once; its streams stay until the caller ends them."""

    def __init__(self, authenticator: Authenticator = OPEN) -> None:
        super().__init__()
        self.authenticator = authenticator
        self.streams = OpenStreams(MOST)

    @streaming_rpc
    async def RetrieveStream(  # noqa: N802
        self, stream: AsyncIterator[Any]
    ) -> AsyncGenerator[retrieval.RetrieveStreamResponse, None]:
        async for request in stream:
            if isinstance(request, Malformed):
                raise request.error()
            yield retrieval.RetrieveStreamResponse()

    @rpc
    async def IngestStream(  # noqa: N802
        self, stream: AsyncIterator[Any]
    ) -> ingest.IngestStreamResponse:
        return ingest.IngestStreamResponse(created_count=len([each async for each in stream]))

    async def Check(self, request: object, context: Any) -> health_pb2.HealthCheckResponse:  # noqa: N802
        context.set_code(grpc.StatusCode.OK)  # as Ray Serve does
        return health_pb2.HealthCheckResponse(status=1)

    async def List(self, request: object, context: object) -> health_pb2.HealthListResponse:  # noqa: N802
        raise NotImplementedError

    async def Watch(  # noqa: N802
        self, request: object, context: object
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        yield health_pb2.HealthCheckResponse(status=1)
        await asyncio.Event().wait()


class WithinBounds:
    """A server that puts what is added within bounds."""

    def __init__(self, server: grpc.aio.Server, service: Service) -> None:
        self._server = server
        self._service = service
        self._open_to_anyone = OpenToAnyone()

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        [methods] = handlers
        bounded = BoundedHandlers(methods, self._service, self._open_to_anyone)
        self._server.add_generic_rpc_handlers((bounded,))

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None:
        pass


@asynccontextmanager
async def started(server: grpc.aio.Server) -> AsyncIterator[str]:
    """The address of a server while it runs."""
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(grace=None)


ADDED: tuple[Any, ...] = (
    registration.add_retrieval_service,
    registration.add_ingest_service,
    registration.add_catalog_service,
    registration.add_admin_service,
    health_pb2_grpc.add_HealthServicer_to_server,
)


@asynccontextmanager
async def listening(service: Service) -> AsyncIterator[str]:
    server = grpc.aio.server()
    bounded: Any = WithinBounds(server, service)
    for add in ADDED:
        add(service, bounded)
    async with started(server) as address:
        yield address


@asynccontextmanager
async def serving(authenticator: Authenticator = OPEN) -> AsyncIterator[grpc.aio.Channel]:
    async with (
        listening(Service(authenticator)) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        yield channel


async def authenticator_by_key() -> tuple[Authenticator, Metadata]:
    keys = FakeApiKeys()
    given = keys.make(Role.ADMIN)
    return Authenticator(keys=(await ring_of(keys)).verify), [("authorization", f"Bearer {given}")]


def half_open(channel: grpc.aio.Channel, metadata: Metadata = ()) -> Any:
    """A call of which only the headers are sent."""
    call: Any = channel.stream_unary(RETRIEVE)
    return call(metadata=metadata)


def watch(channel: grpc.aio.Channel, metadata: Metadata = ()) -> Any:
    call: Any = channel.unary_stream(WATCH)
    return call(b"", metadata=metadata)


async def none_pending() -> bool:
    return PENDING_CALLS.count() == 0


@pytest.mark.parametrize("method", registration.METHODS.values(), ids=lambda method: method.name)
async def test_credentials_are_checked_before_a_message(method: Any) -> None:
    authenticator, _ = await authenticator_by_key()
    async with serving(authenticator) as channel:
        kind: Any = channel.stream_stream if method.server_streaming else channel.stream_unary
        call = kind(f"/{method.containing_service.full_name}/{method.name}")()

        assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
        assert "authorization" in await call.details()


async def test_calls_waiting_for_their_message_are_not_pending() -> None:
    async with serving() as channel:
        waiting = [half_open(channel) for _ in range(MOST)]
        ask: Any = channel.unary_unary(RETRIEVE)
        await ask(QUESTION)

        await until_async(none_pending)

        assert not any(call.done() for call in waiting)


async def test_a_call_without_its_message_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MESSAGE_S", 0.01)
    async with serving() as channel:
        call = half_open(channel)

        assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "message of the call" in await call.details()


async def test_a_call_ended_without_message_is_invalid() -> None:
    async with serving() as channel:
        call = half_open(channel)
        await call.done_writing()

        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_call_with_the_code_of_success_is_answered() -> None:
    async with serving() as channel:
        ask: Any = channel.unary_unary(CHECK)

        assert await ask(b"") == health_pb2.HealthCheckResponse(status=1).SerializeToString()


async def test_client_retries_no_answer_of_the_service() -> None:
    service = Service()
    service.error = StoreUnavailableError("refused")
    async with (
        listening(service) as address,
        AsyncClient(address, tenant="acme") as client,
    ):
        with pytest.raises(UnavailableError):
            await client.retrieve("?")

    assert len(service.requests) == 1


@pytest.mark.parametrize("path", [RETRIEVE, RETRIEVE_STREAM])
async def test_a_question_of_many_values_is_invalid(path: str) -> None:
    many = b"\x32\x00" * (BOUNDS.max_values + 1)
    async with serving() as channel:
        kind: Any = channel.stream_unary if path == RETRIEVE else channel.stream_stream
        call = kind(path)()
        await call.write(many)

        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert f"{BOUNDS.max_values:,} values" in await call.details()


CHECKING_HEALTH = (
    '{"healthCheckConfig": {"serviceName": ""}, "loadBalancingConfig": [{"round_robin": {}}]}'
)


async def asks(channel: grpc.aio.Channel, metadata: Metadata) -> bytes:
    ask: Any = channel.unary_unary(RETRIEVE)
    answered: bytes = await ask(QUESTION, metadata=metadata, timeout=10)
    return answered


async def watched(channel: grpc.aio.Channel, count: int, metadata: Metadata = ()) -> list[Any]:
    """Watches that stay open."""
    held = [watch(channel, metadata) for _ in range(count)]
    for stream in held:
        await stream.read()
    return held


async def test_watches_without_credentials_leave_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "MAX_WATCHES", MOST)
    authenticator, metadata = await authenticator_by_key()
    async with serving(authenticator) as channel:
        held = await watched(channel, MOST - 1)
        refused = watch(channel)

        assert await refused.code() is grpc.StatusCode.UNIMPLEMENTED
        held += await watched(channel, MOST - 1, metadata)
        assert await watch(channel, metadata).code() is grpc.StatusCode.UNIMPLEMENTED
        talk: Any = channel.stream_stream(RETRIEVE_STREAM)
        talking = talk(metadata=metadata)
        await talking.write(b"")
        assert await talking.read() == b""


async def test_a_client_without_place_to_watch_calls_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_WATCHES", MOST)
    authenticator, metadata = await authenticator_by_key()
    options = [("grpc.service_config", CHECKING_HEALTH), ("grpc.use_local_subchannel_pool", 1)]
    async with (
        listening(Service(authenticator)) as address,
        grpc.aio.insecure_channel(address) as holding,
        grpc.aio.insecure_channel(address, options=options) as checking,
        grpc.aio.insecure_channel(address, options=options) as other,
    ):
        # The first of them to call has its watch, the other has none.
        held = await watched(holding, MOST - 2)
        answers = [await asks(channel, metadata) for channel in (checking, other)]

        assert answers == [b""] * 2
        assert len(held) == MOST - 2


async def test_a_stream_that_sends_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "IDLE_S", 0.01)
    async with serving() as channel:
        for kind, path in (
            (channel.stream_stream, RETRIEVE_STREAM),
            (channel.stream_unary, INGEST_STREAM),
        ):
            open_stream: Any = kind(path)
            stream = open_stream()

            assert await stream.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            assert "next message" in await stream.details()


async def test_a_stream_ended_by_its_caller_is_answered() -> None:
    async with serving() as channel:
        send: Any = channel.stream_unary(INGEST_STREAM)

        answered = await send(iter([b"", b""]))

        assert ingest.IngestStreamResponse.FromString(answered).created_count == 2


def test_a_holder_cannot_hold_all_streams() -> None:
    streams = OpenStreams(4)
    with streams.opened("a"), streams.opened("a"), streams.opened("a"):
        with pytest.raises(OverloadedError), streams.opened("a"):
            pass
        with streams.opened("b"), pytest.raises(OverloadedError), streams.opened("c"):
            pass
        with streams.opened("b"):
            pass
    with streams.opened("a"):
        pass


# ---------------------------------------------------------------- pending calls


METHOD = "/trivium.test.Held/Call"


class Held(FakeRpcs):
    """A server whose calls stay until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = SteppedClock()
        self.calls = PendingCalls(self.clock)
        self.arrived = 0
        self.let_go = asyncio.Event()

    async def not_begun(self, request: object, context: object) -> retrieval.RetrieveResponse:
        """As if the event loop had not come to it."""
        del request, context
        self.arrived += 1
        await self.let_go.wait()
        return retrieval.RetrieveResponse()

    @rpc
    async def Retrieve(self, request: object) -> retrieval.RetrieveResponse:  # noqa: N802
        """Begun as every RPC is."""
        return await self.not_begun(request, None)

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
        request_deserializer=retrieval.RetrieveRequest.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
    services = grpc.method_handlers_generic_handler("trivium.test.Held", {"Call": handler})
    server.add_generic_rpc_handlers((services,))
    async with started(server) as address, grpc.aio.insecure_channel(address) as channel:
        call: Any = channel.unary_unary(METHOD)
        made = [call(QUESTION, timeout=30) for _ in range(calls)]
        await until_async(lambda: held.has(calls))
        yield
        held.let_go.set()
        await asyncio.gather(*made)


async def test_calls_not_yet_begun_are_pending_until_end() -> None:
    held = Held()
    before = held.count()

    async with calling(held, held.not_begun, 3):
        assert held.count() == before + 3

    async def none() -> bool:
        return held.count() == before

    await until_async(none)


async def test_an_rpc_is_in_a_method_until_it_is_answered() -> None:
    held = Held()

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


@pytest.fixture
async def get_segments() -> AsyncIterator[tuple[Any, FakeRpcs]]:
    """The method, called with bytes, and the service."""
    server, service = grpc.aio.server(), FakeRpcs()
    registration.add_catalog_service(service, server)
    async with started(server) as address, grpc.aio.insecure_channel(address) as channel:
        yield channel.unary_unary("/trivium.v1.CatalogService/GetSegments"), service


async def test_undecodable_request_is_rejected_with_details(get_segments: Any) -> None:
    call, _ = get_segments
    with pytest.raises(grpc.RpcError) as refused:
        await call(NOT_UTF8)

    error = to_error(refused.value)
    assert isinstance(error, InvalidRequestError)
    assert (error.reason, error.violations[0].field) == ("INVALID_FIELD", "request")


async def test_a_message_arrives_as_it_was_sent(get_segments: Any) -> None:
    call, service = get_segments
    request = catalog.GetSegmentsRequest(tenant="acme", ids=["a", "b"])

    await call(request.SerializeToString())

    assert service.requests == [request]


def test_malformed_request_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(Malformed())) == Malformed()


class RecordingServer:
    """Keeps the services that are added, and knows no other way to add one."""

    def __init__(self) -> None:
        self.services: list[str] = []

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        self.services += [handler.service_name() for handler in handlers]


def test_services_are_added_once_by_generic_handlers() -> None:
    server = RecordingServer()

    for add in ADDED[:4]:
        add(FakeRpcs(), server)

    assert server.services == [
        f"trivium.v1.{name}Service" for name in ("Retrieval", "Ingest", "Catalog", "Admin")
    ]
