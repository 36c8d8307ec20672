"""Reads whole requests before they are calls, and sends answers when the calls have ended.

Serve counts a request as a call, of which it answers a limited number at once, from its headers to
the last byte of its answer, and reads its body into memory without a limit. So a few clients that
send or read slowly would take all places, those of gRPC too. This is in front of Serve: a client
that is slow has no place, and what clients send is bounded in size, time and number.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.domain.errors import TriviumError
from serving.http.calls import ARRIVED, HttpCall
from serving.http.failures import CODES, HTTP_STATUS, RefusedRequestError, response_of
from serving.rpc.identity.access import Access
from serving.rpc.pending import PENDING_CALLS
from serving.rpc.status import to_status

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_BYTES_WITHOUT_CREDENTIALS = 64 * 1024
"""Enough for any question; what is larger is not kept for callers who may ask nothing."""
MAX_HELD_BYTES = 128 * 1024 * 1024
"""Of all requests of callers with credentials that are being read or answered."""
MAX_HELD_BYTES_WITHOUT_CREDENTIALS = 16 * 1024 * 1024
"""The same of callers without, who take no room of others."""
READ_WITHIN_S = 10.0
SEND_WITHIN_S = 30.0
DISCARD_WITHIN_S = 2.0
MAX_DISCARDED_BYTES = 4 * MAX_BODY_BYTES
"""What is read, and dropped, of a request after its refusal."""
OF_SERVE = "/-/"
"""Where the paths begin that Serve answers itself: its health."""
CLOSING = {"connection": "close"}

TOO_LARGE = RefusedRequestError(
    413,
    "resource_exhausted",
    f"a request has at most {MAX_BODY_BYTES:,} bytes; send fewer items, or use gRPC",
    CLOSING,
)
TOO_SLOW = RefusedRequestError(
    408, "deadline_exceeded", f"the request was not complete within {READ_WITHIN_S:g} s", CLOSING
)
TOO_MANY = RefusedRequestError(
    429,
    "resource_exhausted",
    "the service is reading other large requests; try again",
    {**CLOSING, "retry-after": "1"},
)
# Of several codes the first one, which is the usual one.
CODE_OF_STATUS = {status: code for code, status in reversed(HTTP_STATUS.items())}
CODE_OF_STATUS[HTTPStatus.SERVICE_UNAVAILABLE.value] = "resource_exhausted"
"""Serve answers 503 when its queue is full, for which gRPC has RESOURCE_EXHAUSTED."""


class _ClientLeftError(Exception):
    """The client is gone."""


@dataclass(slots=True)
class _Memory:
    """Room for requests that are being read or answered."""

    max_bytes: int
    held_bytes: int = 0


class WholeRequests:
    """An ASGI application in front of another; `access` knows who has credentials."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._memory = _Memory(MAX_HELD_BYTES)
        self._without_credentials = _Memory(MAX_HELD_BYTES_WITHOUT_CREDENTIALS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request; whatever is no request of HTTP is passed on."""
        if scope["type"] != "http" or ARRIVED in scope or scope["path"].startswith(OF_SERVE):
            await self._app(scope, receive, send)
            return
        scope[ARRIVED] = time.monotonic()
        body = bytearray()
        try:
            with self._held(scope, body) as memory:
                await self._read(scope, receive, memory, body)
                await self._answer(scope, bytes(body), receive, send)
        except RefusedRequestError as refusal:
            await _refuse(refusal, scope, receive, send)
        except _ClientLeftError:
            pass

    async def _answer(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        answer = _Answer()
        try:
            with PENDING_CALLS.opened():
                await self._app(scope, _after(body, receive), answer.collect)
        finally:
            async with asyncio.timeout(SEND_WITHIN_S):
                await answer.send(scope, receive, send)

    async def _read(self, scope: Scope, receive: Receive, memory: _Memory, body: bytearray) -> None:
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                length = Headers(scope=scope).get("content-length", "0")
                self._require_room(scope, memory, int(length) if length.isdecimal() else 0, 0)
                await self._read_all(scope, receive, memory, body)
        except TimeoutError:
            raise TOO_SLOW from None

    async def _read_all(
        self, scope: Scope, receive: Receive, memory: _Memory, body: bytearray
    ) -> None:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientLeftError
            part = message.get("body", b"")
            self._require_room(scope, memory, len(body) + len(part), len(part))
            body += part
            memory.held_bytes += len(part)
            more = message.get("more_body", False)

    def _require_room(self, scope: Scope, memory: _Memory, length: int, new: int) -> None:
        if length > MAX_BODY_BYTES:
            raise TOO_LARGE
        if length > MAX_BYTES_WITHOUT_CREDENTIALS:
            self._require_credentials(scope)
        if memory.held_bytes + new > memory.max_bytes:
            raise TOO_MANY

    def _require_credentials(self, scope: Scope) -> None:
        try:
            self._access.authenticated(HttpCall(Request(scope)))
        except TriviumError as error:
            code = CODES[to_status(error).code]
            raise RefusedRequestError(HTTP_STATUS[code], code, str(error), CLOSING) from None

    @contextmanager
    def _held(self, scope: Scope, body: bytearray) -> Iterator[_Memory]:
        try:
            self._require_credentials(scope)
            memory = self._memory
        except RefusedRequestError:
            memory = self._without_credentials
        try:
            yield memory
        finally:
            memory.held_bytes -= len(body)


async def _refuse(refusal: RefusedRequestError, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuses a request, and closes the connection when its rest was read or is too long.

    Closed with data unread, a connection is reset, and the client may lose the answer.
    """

    async def send_open(message: Message) -> None:
        is_body = message["type"] == "http.response.body"
        await send({**message, "more_body": True} if is_body else message)

    await response_of(refusal)(scope, receive, send_open)
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_WITHIN_S):
            await _discard(receive)
    await send({"type": "http.response.body"})


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
    """What an application receives: the body in one piece, then what comes after it."""
    parts: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return parts.pop() if parts else await receive()

    return received
