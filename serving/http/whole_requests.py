"""Reads whole requests before they are calls, and sends answers when the calls have ended.

Serve counts a request as a call, of which it answers a limited number at once, from its headers to
the last byte of its answer, and reads its body into memory without a limit. So a few clients that
send or read slowly would take all places, those of gRPC too. This is in front of Serve: a client
that is slow has no place, credentials are checked at the headers, before anything of the body is
read, and what callers then send is bounded in size, time and number, the values in it before any of
them is read.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from http import HTTPStatus
from typing import Any, NoReturn
from weakref import WeakValueDictionary

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.domain.errors import TriviumError
from serving.domain.identity import Caller
from serving.http.calls import ARRIVED, HttpCall
from serving.http.connect import BINARY, content_type_of
from serving.http.failures import (
    HTTP_STATUS,
    FailedCallError,
    RefusedRequestError,
    response_of,
)
from serving.http.routes import called_rpc
from serving.rpc.boundary import Guarded, answer_with_error
from serving.rpc.bounds import SHARE_OF_ONE
from serving.rpc.message_bounds import MAX_BYTES_ON_LOOP, bounds_of, fault_of_body
from serving.rpc.pending import PENDING_CALLS

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_HELD_BYTES = 128 * 1024 * 1024
"""Of all requests that are being read or answered; a caller has three quarters at most."""
READ_WITHIN_S = 10.0
SEND_WITHIN_S = 30.0
DISCARD_WITHIN_S = 2.0
MAX_DISCARDED_BYTES = 4 * MAX_BODY_BYTES
"""The bytes of a refused request that are read and dropped."""
OF_SERVE = "/-/"
"""Prefixes of the paths that Serve answers itself: its health."""

TOO_SLOW = RefusedRequestError(
    408, "deadline_exceeded", f"the request was not complete within {READ_WITHIN_S:g} s"
)
TOO_MANY = RefusedRequestError(
    429,
    "resource_exhausted",
    "the service is reading other large requests; try again",
    {"retry-after": "1"},
)
# Of several codes the first one, which is the usual one.
CODE_OF_STATUS = {status: code for code, status in reversed(HTTP_STATUS.items())}
CODE_OF_STATUS[HTTPStatus.SERVICE_UNAVAILABLE.value] = "resource_exhausted"
"""Serve answers 503 when its queue is full, for which gRPC has RESOURCE_EXHAUSTED."""


class _ClientLeftError(Exception):
    """The client is gone."""


class WholeRequests:
    """An ASGI application in front of another.

    `service` knows who has credentials; `readable` lets pages of other sites read a refusal.
    """

    def __init__(
        self,
        app: ASGIApp,
        service: Guarded,
        readable: Callable[[ASGIApp], ASGIApp] = lambda response: response,
    ) -> None:
        self._app = app
        self._service = service
        self._readable = readable
        self._held: Counter[str] = Counter()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request; whatever is no request of HTTP is passed on."""
        if scope["type"] != "http" or ARRIVED in scope or scope["path"].startswith(OF_SERVE):
            await self._app(scope, receive, send)
            return
        scope[ARRIVED] = time.monotonic()
        try:
            await self._answer(scope, receive, send)
        except (FailedCallError, RefusedRequestError) as error:
            await self._refuse(error, scope, receive, send)
        except _ClientLeftError:
            pass

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        rpc = called_rpc(scope["method"], scope["path"])
        if rpc is None:
            await self._pass_on(scope, b"", receive, send)
            return
        caller = self._require_credentials(rpc, scope)
        body = _Body(self._held, caller.name, rpc)
        try:
            await body.read(scope, receive)
            whole = bytes(body.bytes)
            await self._require_few_values(rpc, scope, caller, whole)
            await self._pass_on(scope, whole, receive, send)
        finally:
            body.release()

    def _require_credentials(self, rpc: str, scope: Scope) -> Caller:
        try:
            return self._service.authenticator.caller_of(rpc, HttpCall(Request(scope)))
        except TriviumError as error:
            self._fail(rpc, scope, error)

    async def _require_few_values(
        self, rpc: str, scope: Scope, caller: Caller, body: bytes
    ) -> None:
        is_json = content_type_of(Headers(scope=scope)) != BINARY
        # One large body of a caller at a time: calls of others come between two that are refused.
        of_caller = self._turns.setdefault(caller.name, asyncio.Lock())
        with PENDING_CALLS.opened():
            async with of_caller if len(body) > MAX_BYTES_ON_LOOP else nullcontext():
                fault = await fault_of_body(rpc, body, is_json=is_json)
        if fault is not None:
            self._fail(rpc, scope, fault.error(), caller=caller.name)

    def _fail(self, rpc: str, scope: Scope, error: TriviumError, **logged: object) -> NoReturn:
        """Ends a call with an error, which is logged and measured."""
        call = HttpCall(Request(scope))
        answer_with_error(rpc, call, self._service.recorder, error, **logged)
        call.require_ok()
        raise error

    async def _pass_on(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        answer = _Answer()
        try:
            with PENDING_CALLS.opened():
                await self._app(scope, _after(body, receive), answer.collect)
        finally:
            async with asyncio.timeout(SEND_WITHIN_S):
                await answer.send(scope, receive, send)

    async def _refuse(
        self,
        error: FailedCallError | RefusedRequestError,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Refuses a request, and closes the connection when its rest was read or is too long.

        Closed with data unread, a connection is reset, and the client may lose the answer.
        """

        async def send_open(message: Message) -> None:
            is_body = message["type"] == "http.response.body"
            await send({**message, "more_body": True} if is_body else message)

        response = response_of(error)
        response.headers["connection"] = "close"
        await self._readable(response)(scope, receive, send_open)
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_WITHIN_S):
                await _discard(receive)
        await send({"type": "http.response.body"})


class _Body:
    """The body of a request, which counts as held by its caller until it is released."""

    def __init__(self, held: Counter[str], caller: str, rpc: str) -> None:
        self.bytes = bytearray()
        self._held = held
        self._caller = caller
        self._max_bytes = min(MAX_BODY_BYTES, bounds_of(rpc).max_bytes)

    async def read(self, scope: Scope, receive: Receive) -> None:
        """Reads all; raises `RefusedRequestError` if it is too large or too slow."""
        length = Headers(scope=scope).get("content-length", "0")
        self._require_room(int(length) if length.isdecimal() else 0, 0)
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                more = True
                while more:
                    more = self._add(await receive())
        except TimeoutError:
            raise TOO_SLOW from None

    def release(self) -> None:
        """Forgets the body: a refused request is in memory until its rest was sent."""
        self._held[self._caller] -= len(self.bytes)
        if not self._held[self._caller]:
            del self._held[self._caller]
        self.bytes.clear()

    def _add(self, message: Message) -> bool:
        if message["type"] == "http.disconnect":
            raise _ClientLeftError
        part = message.get("body", b"")
        self._require_room(len(self.bytes) + len(part), len(part))
        self.bytes += part
        self._held[self._caller] += len(part)
        more: bool = message.get("more_body", False)
        return more

    def _require_room(self, length: int, new: int) -> None:
        if length > self._max_bytes:
            advice = f"this request has at most {self._max_bytes:,} bytes; send less, or use gRPC"
            raise RefusedRequestError(413, "resource_exhausted", advice)
        held, of_caller = self._held.total() + new, self._held[self._caller] + new
        if held > MAX_HELD_BYTES or of_caller > SHARE_OF_ONE * MAX_HELD_BYTES:
            raise TOO_MANY


async def _discard(receive: Receive) -> None:
    discarded, more = 0, True
    while more and discarded < MAX_DISCARDED_BYTES:
        message = await receive()
        discarded += len(message.get("body", b""))
        more = message.get("more_body", False)


class _Answer:
    """An answer, which is kept until it is complete."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    async def collect(self, message: Message) -> None:
        """Keeps a part of the answer."""
        self._messages.append(message)

    async def send(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the answer; one of Serve itself, which is a text, as the error that it means."""
        if (refusal := self._refusal()) is not None:
            await response_of(refusal)(scope, receive, send)
            return
        for message in self._messages:
            await send(message)

    def _refusal(self) -> RefusedRequestError | None:
        if not self._messages or self._messages[0]["status"] < HTTPStatus.BAD_REQUEST:
            return None
        headers = Headers(raw=self._messages[0]["headers"])
        if not headers.get("content-type", "").startswith("text/plain"):
            return None
        status: int = self._messages[0]["status"]
        text = b"".join(each.get("body", b"") for each in self._messages[1:])
        code = CODE_OF_STATUS.get(status, "unknown")
        return RefusedRequestError(HTTP_STATUS.get(code, status), code, text.decode())


def _after(body: bytes, receive: Receive) -> Receive:
    """The messages for an application: the body in one piece, then those after the request."""
    parts: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        if parts:
            return parts.pop()
        while (message := await receive())["type"] == "http.request":
            pass
        return message

    return received
