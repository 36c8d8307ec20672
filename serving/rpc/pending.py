"""Counts the calls of this process that were accepted and that no method has begun.

gRPC's asyncio server hands over calls one at a time, in the order of their arrival. On a busy
service calls spend most of their time before that, and gRPC tells of it only in the counters of
channelz (gRFC A14). Those are of the process, so what is counted here is too.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from grpc._cython import cygrpc  # what grpcio-channelz parses into a message that is not needed

READ_AGAIN_S = 0.050
"""The least time between two readings."""

READ_BACKLOG_AGAIN_S = 0.010
"""The same while more calls wait than are in a method: then the count decides what is shed."""

MAX_READING = 0.02
"""The most of its time that a process reads: 0.1 ms each with one connection, 0.7 with 32."""

FIRST = 0
"""The id of a server at which to begin to list them."""


class PendingCalls:
    """The calls that are open, without those in a method."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_http = 0
        self._in_methods = 0
        self._begun: ContextVar[bool] = ContextVar("begun", default=False)
        self._count = 0
        self._read_again_at = -math.inf

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Counts a call by HTTP as open, of which gRPC does not know, until it ends."""
        self._by_http += 1
        try:
            yield
        finally:
            self._by_http -= 1

    @contextmanager
    def in_method(self) -> Iterator[None]:
        """Counts a call as begun, until it ends; once, however many methods it passes."""
        if self._begun.get():
            yield
            return
        self._in_methods += 1
        self._begun.set(True)
        try:
            yield
        finally:
            self._in_methods -= 1
            self._begun.set(False)

    def count(self) -> int:
        """The number of calls that wait to be begun, as of a moment ago."""
        now = self._clock()
        if now >= self._read_again_at:
            # What ended between the two counts would make it negative.
            self._count = max(0, _open_calls() + self._by_http - self._in_methods)
            pause_s = READ_BACKLOG_AGAIN_S if self._count > self._in_methods else READ_AGAIN_S
            self._read_again_at = now + max(pause_s, (self._clock() - now) / MAX_READING)
        return self._count


PENDING_CALLS = PendingCalls()


def _open_calls() -> int:
    servers = json.loads(cygrpc.channelz_get_servers(FIRST)).get("server", ())
    return sum(_open_calls_of(server["data"]) for server in servers)


def _open_calls_of(counters: dict[str, str]) -> int:
    ended = int(counters.get("callsSucceeded", 0)) + int(counters.get("callsFailed", 0))
    return int(counters.get("callsStarted", 0)) - ended
