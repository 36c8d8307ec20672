"""Calls that gRPC has accepted and no method has begun, counted in a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from serving.rpc.pending import READ_AGAIN_S, PendingCalls
from tests.support.stepped_clock import SteppedClock
from tests.support.waiting import until_async

METHOD = "/trivium.test.Held/Call"


class Held:
    """A server whose calls stay until they are let go."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.calls = PendingCalls(self.clock)
        self.arrived = 0
        self.let_go = asyncio.Event()

    async def begun(self, request: bytes, context: object) -> bytes:
        del context
        self.arrived += 1
        with self.calls.in_method():
            await self.let_go.wait()
        return request

    async def not_begun(self, request: bytes, context: object) -> bytes:
        """As if the event loop had not come to it."""
        del context
        self.arrived += 1
        await self.let_go.wait()
        return request

    async def has(self, arrived: int) -> bool:
        return self.arrived == arrived

    def count(self) -> int:
        self.clock.now += READ_AGAIN_S
        return self.calls.count()


@asynccontextmanager
async def calling(held: Held, behavior: Any, calls: int) -> AsyncIterator[None]:
    """So many calls, which have arrived."""
    server = grpc.aio.server()
    handler: Any = grpc.unary_unary_rpc_method_handler(behavior)
    services = grpc.method_handlers_generic_handler("trivium.test.Held", {"Call": handler})
    server.add_generic_rpc_handlers((services,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call: Any = channel.unary_unary(METHOD)
            made = [call(b"", timeout=30) for _ in range(calls)]
            await until_async(lambda: held.has(calls))
            yield
            held.let_go.set()
            await asyncio.gather(*made)
    finally:
        await server.stop(grace=None)


async def test_calls_that_no_method_has_begun_are_pending_until_they_end() -> None:
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


async def test_the_counters_are_read_again_after_a_while() -> None:
    held = Held()
    before = held.count()

    async with calling(held, held.not_begun, 1):
        held.clock.now += READ_AGAIN_S / 2
        assert held.calls.count() == before

        held.clock.now += READ_AGAIN_S / 2
        assert held.calls.count() == before + 1


async def test_it_is_never_negative() -> None:
    calls = PendingCalls()

    with calls.in_method():
        assert calls.count() == 0
