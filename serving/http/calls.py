"""A call that came by HTTP, as the boundary of the RPCs sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any

import grpc
from google.protobuf.message import Message
from google.rpc import code_pb2, status_pb2
from starlette.requests import Request

from serving.domain.budget import Deadline
from serving.domain.errors import BudgetExhaustedError
from serving.http.failures import FailedCallError, RefusedRequestError
from serving.rpc.boundary import REQUEST_ID
from serving.rpc.identity.authenticator import AUTHORIZATION
from serving.rpc.registration import Malformed
from serving.rpc.service import TriviumService
from serving.rpc.status import STATUS_DETAILS, to_status
from serving.rpc.tracing import PARENT

TIMEOUT = "connect-timeout-ms"
MAX_TIMEOUT_DIGITS = 10
REQUEST_ID_HEADER = "x-request-id"
ARRIVED = "trivium.arrived"
"""In the scope of a request: when its headers were read, in the seconds of `time.monotonic`."""


class HttpCall:
    """The context of a call: what its headers say, and the status that it gets."""

    def __init__(self, request: Request) -> None:
        self._headers = request.headers
        self._arrived: float | None = request.scope.get(ARRIVED)
        self._status = status_pb2.Status(code=code_pb2.OK)

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]]:
        """The headers that RPCs read."""
        credentials = self._headers.getlist(AUTHORIZATION)
        request_id = self._headers.getlist(REQUEST_ID_HEADER)
        trace = ((key, self._headers[key]) for key in PARENT if key in self._headers)
        return [
            *trace,
            *((AUTHORIZATION, each) for each in credentials),
            *((REQUEST_ID, each) for each in request_id),
        ]

    @cached_property
    def _deadline(self) -> Deadline | None:
        timeout = self._headers.get(TIMEOUT)
        if timeout is None:
            return None
        if not (timeout.isascii() and timeout.isdigit() and len(timeout) <= MAX_TIMEOUT_DIGITS):
            message = f"Connect-Timeout-Ms must be a number of at most {MAX_TIMEOUT_DIGITS} digits"
            raise RefusedRequestError(400, "invalid_argument", message)
        began = time.monotonic() if self._arrived is None else self._arrived
        return Deadline(began + int(timeout) / 1e3)

    def time_remaining(self) -> float | None:
        """The seconds that the caller still waits; None if it does not say.

        Raises:
            RefusedRequestError: The header `Connect-Timeout-Ms` is not a number.
        """
        return None if self._deadline is None else self._deadline.remaining()

    def set_code(self, code: grpc.StatusCode) -> None:
        """Sets the status code."""
        self._status.code = code.value[0]

    def set_details(self, details: str) -> None:
        """Sets the status message."""
        self._status.message = details

    def set_trailing_metadata(self, metadata: Sequence[tuple[str, str | bytes]]) -> None:
        """Sets the details of the status, which the boundary sends so."""
        for key, value in metadata:
            if key == STATUS_DETAILS and isinstance(value, bytes):
                self._status = status_pb2.Status.FromString(value)

    def require_ok(self) -> None:
        """Raises `FailedCallError` if the RPC has set the status of an error."""
        if self._status.code != code_pb2.OK:
            raise FailedCallError(self._status)

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """Raises `FailedCallError` inside when the caller no longer waits, as gRPC does."""
        try:
            remaining = self.time_remaining()
            if remaining is not None and remaining <= 0:
                raise TimeoutError
            async with asyncio.timeout(remaining):
                yield
        except TimeoutError:
            raise FailedCallError(to_status(BudgetExhaustedError("answering"))) from None


async def answer(
    service: TriviumService, method: str, request: Message | Malformed, http_request: Request
) -> Any:
    """Calls an RPC; returns the response message.

    Raises:
        FailedCallError: The RPC has set another status than OK.
        RefusedRequestError: A header is not valid.
    """
    call = HttpCall(http_request)
    async with call.in_time():
        response = await getattr(service, method)(request, call)
    call.require_ok()
    return response
