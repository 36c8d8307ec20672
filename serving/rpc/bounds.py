"""Bounds what callers can hold open, before a call counts as one of Ray Serve's.

Ray Serve gives a call one of its concurrent calls when the first message has arrived, and a stream
at once, whoever calls. So a caller without credentials could take all of them, by doing nothing.
Here credentials are checked at the headers, a message must arrive in time, and streams are counted:
apart for callers with credentials and for those without. What waits for bytes counts as no load.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Protocol

import grpc

from serving.domain.errors import (
    BudgetExhaustedError,
    InvalidRequestError,
    OverloadedError,
    TriviumError,
    Violation,
)
from serving.domain.identity import Caller
from serving.rpc.boundary import CallContext, Guarded, answer_with_error, call_deadline
from serving.rpc.identity.rules import ANYONE, RULES
from serving.rpc.message_bounds import read_wire
from serving.rpc.pending import PENDING_CALLS

MESSAGE_S = 1.0
"""Time from the headers of a call to its message."""
BATCH_S = 30.0
"""Same for `Ingest`: the largest batch at 18 Mbit/s."""
BATCHES = {"Ingest"}
IDLE_S = 60.0
"""Idle time of a stream."""

MAX_WITHOUT_CREDENTIALS = 64
"""Unauthenticated reflection streams."""
MAX_WATCHES = 1024
"""Authenticated health watches, and as many unauthenticated ones."""
WATCH = "Watch"
RETRY_S = 1.0
SHARE_OF_ONE = 3 / 4
NO_ERROR = (None, grpc.StatusCode.OK)
"""The code of a call for which none is set, or the one of success, as by Ray Serve."""

NO_RETRY = ("grpc-retry-pushback-ms", "-1")
"""Clients do not retry what the service itself answers, though no message was sent (gRFC A6)."""


class OpenStreams:
    """Allows `limit` open streams, at most 75 % of them per caller."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._limit_per_caller = max(1, round(SHARE_OF_ONE * limit))
        self._open: Counter[str] = Counter()

    @contextmanager
    def opened(self, holder: str) -> Iterator[None]:
        """Counts a stream while it is open; of a caller without a name, by its connection.

        Raises:
            OverloadedError: Too many are open.
        """
        if self._open.total() >= self._limit or self._open[holder] >= self._limit_per_caller:
            raise OverloadedError("the list of open streams", RETRY_S)
        self._open[holder] += 1
        try:
            yield
        finally:
            self._open[holder] -= 1
            if not self._open[holder]:
                del self._open[holder]


class OpenToAnyone:
    """The streams that need no credentials, of all services of a server."""

    def __init__(self) -> None:
        self._reflection = OpenStreams(MAX_WITHOUT_CREDENTIALS)
        self._watches = OpenStreams(MAX_WATCHES)
        self._watches_of_anyone = OpenStreams(MAX_WATCHES)

    def streams(self, name: str, caller: Caller, of_callers: OpenStreams) -> OpenStreams:
        """The counter of a method's streams; `of_callers` counts others of known callers."""
        if name == WATCH:
            return self._watches_of_anyone if caller is ANYONE else self._watches
        return self._reflection if caller is ANYONE else of_callers


class Bounded(Guarded, Protocol):
    """The part of the service that is used here."""

    @property
    def streams(self) -> OpenStreams:
        """The streams of callers with credentials, or of a service that asks for none."""


class Call(CallContext, Protocol):
    """The part of the context of gRPC that is used here."""

    def peer(self) -> str:
        """The address of the connection."""


class BoundedHandlers(grpc.GenericRpcHandler):
    """The handlers of a service, each within bounds.

    Ray Serve replaces `_method_handlers`, and asks for them to list the services.
    """

    def __init__(self, handlers: Any, service: Bounded, open_to_anyone: OpenToAnyone) -> None:
        self._method_handlers = handlers._method_handlers
        self._service = service
        self._open_to_anyone = open_to_anyone
        self._within_bounds: dict[str, Any] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """The handler of a call, or None."""
        path = handler_call_details.method
        if path not in self._within_bounds and path in self._method_handlers:
            name = path.rpartition("/")[2]
            self._within_bounds[path] = self._bounded(name, self._method_handlers[path])
        return self._within_bounds.get(path)

    def _bounded(self, name: str, handler: Any) -> Any:
        # gRPC calls the handler of a stream when the headers are there, others with the message,
        # which is read here and not by gRPC: within bounds, and in a thread if it is large.
        formats = None, handler.response_serializer
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(self._responses(name, handler), *formats)
        return grpc.stream_unary_rpc_method_handler(self._response(name, handler), *formats)

    def _response(self, name: str, handler: Any) -> Any:
        within_s = BATCH_S if name in BATCHES else MESSAGE_S

        async def answered(requests: AsyncIterator[Any], context: Call) -> Any:
            with self._answered(name, context), call_deadline(context):
                messages = _Messages(requests, name, handler.request_deserializer)
                if not handler.request_streaming:
                    self._require_credentials(name, context)
                    request = await messages.only(within_s)
                    return await handler.unary_unary(request, context)
                with self._opened(name, context):
                    answer = await handler.stream_unary(messages.read(), context)
                    messages.require_busy()
                    return answer

        async def response(requests: AsyncIterator[Any], context: Any) -> Any:
            answer = await answered(requests, context)
            if context.code() not in NO_ERROR:
                # Without an empty message, so that a proxy finds the status in the headers.
                trailers = (*(context.trailing_metadata() or ()), NO_RETRY)
                await context.abort(context.code(), context.details(), trailers)
            return answer

        return response

    def _responses(self, name: str, handler: Any) -> Any:
        async def responses(
            requests: AsyncIterator[Any], context: Call
        ) -> AsyncGenerator[Any, None]:
            with self._answered(name, context), self._opened(name, context):
                messages = _Messages(requests, name, handler.request_deserializer)
                if handler.request_streaming:
                    answers = handler.stream_stream(messages.read(), context)
                else:
                    answers = handler.unary_stream(await messages.only(MESSAGE_S), context)
                async for answer in answers:
                    yield answer
                messages.require_busy()

        return responses

    @contextmanager
    def _answered(self, name: str, context: Call) -> Iterator[None]:
        """Counts a call as begun, and ends it with the status of an error that is raised."""
        with PENDING_CALLS.in_method():
            try:
                yield
            except TriviumError as error:
                answer_with_error(name, context, self._service.recorder, error)
                if name == WATCH and isinstance(error, OverloadedError):
                    # Clients that check health then take the service for healthy; for any other
                    # code they would fail all their calls, with credentials or not.
                    context.set_code(grpc.StatusCode.UNIMPLEMENTED)

    def _require_credentials(self, name: str, context: Call) -> None:
        if name in RULES:
            self._service.authenticator.caller_of(name, context)

    def _opened(self, name: str, context: Call) -> AbstractContextManager[None]:
        """Counts the stream as one of its caller, or of its connection if there is none.

        Raises as `Authenticator.caller_of`, and `OverloadedError` if too many are open.
        """
        authenticator = self._service.authenticator
        if name in RULES:
            caller = authenticator.caller_of(name, context)
            holder = context.peer() if caller is ANYONE else caller.name
            return self._service.streams.opened(holder)
        try:
            caller = authenticator.authenticated(context)
        except TriviumError:
            caller = ANYONE
        streams = self._open_to_anyone.streams(name, caller, self._service.streams)
        return streams.opened(context.peer() if caller is ANYONE else caller.name)


class _Messages:
    """The messages of a call, until it sends none for too long."""

    def __init__(
        self, requests: AsyncIterator[bytes], rpc: str, deserialize: Callable[[bytes], Any]
    ) -> None:
        self._requests = requests
        self._read = partial(read_wire, rpc, read=deserialize)
        self._idle = False

    async def only(self, within_s: float) -> Any:
        try:
            async with asyncio.timeout(within_s):
                encoded = await anext(self._requests)
        except TimeoutError:
            raise BudgetExhaustedError(
                f"waiting {within_s:g} s for the message of the call"
            ) from None
        except StopAsyncIteration:
            raise InvalidRequestError([Violation("request", "was not sent")]) from None
        return await self._read(encoded)

    async def read(self) -> AsyncIterator[Any]:
        while True:
            try:
                async with asyncio.timeout(IDLE_S):
                    encoded = await anext(self._requests)
            except StopAsyncIteration:
                return
            except TimeoutError:
                # Serve would take an error for the end of the stream, and so would the method.
                self._idle = True
                return
            yield await self._read(encoded)

    def require_busy(self) -> None:
        """Raises `BudgetExhaustedError` if the call ended for lack of messages."""
        if self._idle:
            raise BudgetExhaustedError(f"waiting {IDLE_S:g} s for the next message of the stream")
