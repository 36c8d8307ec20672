"""Counts the calls of this process that were accepted and that no method has begun.

gRPC's asyncio server hands over calls one at a time, in the order of their arrival. On a busy
service calls spend most of their time before that, and gRPC tells of it only in the counters of
channelz (gRFC A14). Those are of the process, so what is counted here is too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from grpc._cython import cygrpc  # what grpcio-channelz parses into a message that is not needed

READ_AGAIN_S = 0.050
"""Reading the counters takes 0.5 to 0.8 ms of CPU: a twentieth of an answer."""

READ_BACKLOG_AGAIN_S = 0.010
"""The same while more calls wait than are in a method: then the count decides what is shed."""

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
        self._read_at = -READ_AGAIN_S

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
        """The number of calls that wait to be begun, as of `READ_AGAIN_S` ago at most."""
        now = self._clock()
        has_backlog = self._count > self._in_methods
        if now - self._read_at >= (READ_BACKLOG_AGAIN_S if has_backlog else READ_AGAIN_S):
            self._read_at = now
            # What ended between the two counts would make it negative.
            self._count = max(0, _open_calls() + self._by_http - self._in_methods)
        return self._count


PENDING_CALLS = PendingCalls()


def _open_calls() -> int:
    servers = json.loads(cygrpc.channelz_get_servers(FIRST)).get("server", ())
    return sum(_open_calls_of(server["data"]) for server in servers)


def _open_calls_of(counters: dict[str, str]) -> int:
    ended = int(counters.get("callsSucceeded", 0)) + int(counters.get("callsFailed", 0))
    return int(counters.get("callsStarted", 0)) - ended
