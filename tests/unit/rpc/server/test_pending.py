"""Calls that gRPC has accepted and no method has begun, counted in a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from serving.rpc import pending
from serving.rpc.boundary import rpc
from serving.rpc.identity.authenticator import OPEN
from serving.rpc.pending import (
    MAX_READING,
    PENDING_CALLS,
    READ_AGAIN_S,
    READ_BACKLOG_AGAIN_S,
    PendingCalls,
)
from serving.telemetry import NoRecorder
from tests.support.stepped_clock import SteppedClock
from tests.support.waiting import until_async
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
