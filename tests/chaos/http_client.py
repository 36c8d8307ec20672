"""The asyncio client over HTTP: its unary calls are those of Connect, in binary."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, cast

import grpc
from aiohttp import ClientError, ClientSession, ClientTimeout
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import status_pb2
from grpc import aio

from serving.http import failures
from trivium import AsyncClient
from trivium.errors import DETAILS_KEY
from trivium.v1.ingest_service_pb2_grpc import IngestServiceStub
from trivium.v1.retrieval_service_pb2_grpc import RetrievalServiceStub
from trivium.wire.channel import Metadata

BINARY = "application/proto"
CODES = {failures.CODES[code.value[0]]: code for code in grpc.StatusCode}
UNAVAILABLE = (429, 502, 503, 504)
"""By Connect's specification, of answers that a proxy has made."""


class HttpClient(AsyncClient):
    """Retrieves, stores and erases by HTTP; streams and the catalog are those of gRPC.

    Args:
        address: Of gRPC.
        http: The URL of HTTP.
    """

    def __init__(self, address: str, http: str) -> None:
        super().__init__(address)
        self._session = ClientSession(http)
        channel = cast(aio.Channel, ConnectChannel(self._session))
        self._retrieval = RetrievalServiceStub(channel)
        self._ingest = IngestServiceStub(channel)

    async def close(self) -> None:
        """Closes the connections."""
        await self._session.close()
        await super().close()


class ConnectChannel:
    """As much of a channel of gRPC as stubs with unary calls need."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **_: object,
    ) -> Callable[..., Awaitable[Message]]:
        """A call, which fails with the errors of a channel."""

        async def call(request: Message, timeout: float, metadata: Metadata) -> Message:
            headers = {
                "content-type": BINARY,
                "connect-timeout-ms": f"{timeout * 1e3:.0f}",
                **{name: str(value) for name, value in metadata},
            }
            try:
                async with self._session.post(
                    method,
                    data=request_serializer(request),
                    headers=headers,
                    timeout=ClientTimeout(timeout),
                ) as response:
                    body = await response.read()
            except TimeoutError:
                _fail(grpc.StatusCode.DEADLINE_EXCEEDED, "no answer within the timeout")
            except ClientError as error:
                _fail(grpc.StatusCode.UNAVAILABLE, str(error))
            if response.status == 200:
                return cast(Message, response_deserializer(body))
            _fail(*_error_of(response.status, body))

        return call

    def _stream(self, *_: object, **__: object) -> None:
        """A stream, which HTTP has not."""

    stream_stream = stream_unary = unary_stream = _stream


def _error_of(status: int, body: bytes) -> tuple[grpc.StatusCode, str, bytes]:
    """The code, message and details of an answer; a proxy's own have the code of their status."""
    try:
        error = json.loads(body)
    except ValueError:
        code = grpc.StatusCode.UNAVAILABLE if status in UNAVAILABLE else grpc.StatusCode.UNKNOWN
        return code, f"HTTP status {status}", b""
    code = CODES[error["code"]]
    details = [
        AnyMessage(
            type_url=f"type.googleapis.com/{each['type']}",
            value=base64.b64decode(each["value"] + "=="),
        )
        for each in error.get("details", ())
    ]
    whole = status_pb2.Status(code=code.value[0], message=error["message"], details=details)
    return code, error["message"], whole.SerializeToString()


def _fail(code: grpc.StatusCode, message: str, details: bytes = b"") -> NoReturn:
    raise aio.AioRpcError(
        code, aio.Metadata(), aio.Metadata((DETAILS_KEY, details)), details=message
    )
