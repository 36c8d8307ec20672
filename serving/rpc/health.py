"""The health of the service, read for all who ask and once for all who watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from functools import cached_property
from typing import Any

from grpc_health.v1 import health_pb2 as pb

from serving.domain.budget import Deadline
from serving.rpc.boundary import CallContext
from serving.rpc.pending import PENDING_CALLS
from serving.rpc.use_cases import Rpcs

POLL_S = 1.0
WATCH_S = 600.0


class Health:
    """Whether PostgreSQL can be reached; `ready` asks it."""

    def __init__(self, ready: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        self._ready = ready
        self._probe: asyncio.Task[bool] | None = None
        self._watchers = 0
        self._watching: asyncio.Task[None] | None = None
        self._seen: bool | None = None
        self._changed = asyncio.Event()

    async def is_ready(self) -> bool:
        """Whether it can be reached now."""
        # One at a time for all who ask: anyone may, and each takes a connection.
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._ready())
        return await asyncio.shield(self._probe)

    async def watch(self) -> AsyncGenerator[bool, None]:
        """Whether it can be reached, and each change, for `WATCH_S`; who waits costs nothing."""
        end, last = Deadline.after(WATCH_S), None
        self._watchers += 1
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())
        try:
            while (remaining := end.remaining()) > 0:
                changed = self._changed
                if self._seen is not None and self._seen != last:
                    last = self._seen
                    yield last
                    continue
                try:
                    async with asyncio.timeout(remaining):
                        await changed.wait()
                except TimeoutError:
                    return
        finally:
            self._watchers -= 1

    async def _watch(self) -> None:
        while self._watchers:
            is_ready = await self.is_ready()
            if is_ready != self._seen:
                self._seen = is_ready
                self._changed.set()
                self._changed = asyncio.Event()
            await asyncio.sleep(POLL_S)
        self._seen = None


class HealthService(Rpcs):
    """The RPCs of `grpc.health.v1.Health`."""

    @cached_property
    def _health(self) -> Health:
        return Health(lambda: self.use_cases.store.ready())

    async def Check(
        self, request: pb.HealthCheckRequest, grpc_context: CallContext
    ) -> pb.HealthCheckResponse:
        """Reports whether the service can answer: whether PostgreSQL is reachable."""
        del request, grpc_context
        return _response(await self._health.is_ready())

    async def List(
        self, request: pb.HealthListRequest, grpc_context: CallContext
    ) -> pb.HealthListResponse:
        """Reports the health of all services, which is that of the server."""
        del request
        check = await self.Check(pb.HealthCheckRequest(), grpc_context)
        return pb.HealthListResponse(statuses={"": check})

    async def Watch(
        self, request: pb.HealthCheckRequest, grpc_context: CallContext
    ) -> AsyncIterator[pb.HealthCheckResponse]:
        """Streams the health and each change of it; it ends, and a client then watches again."""
        del request, grpc_context
        with PENDING_CALLS.in_method():
            async with aclosing(self._health.watch()) as watched:
                async for is_ready in watched:
                    yield _response(is_ready)


def _response(is_ready: bool) -> pb.HealthCheckResponse:
    states = pb.HealthCheckResponse
    return states(status=states.SERVING if is_ready else states.NOT_SERVING)
