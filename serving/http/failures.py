"""Errors as Connect writes them: JSON with a code, a message and details, and an HTTP status.

The codes and details are those that gRPC gets, since both are made from the same status.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import json_format, symbol_database
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2
from starlette.responses import Response

from serving.http.messages import encoded

CODES = {code.value[0]: code.name.lower() for code in grpc.StatusCode}
CODES[grpc.StatusCode.CANCELLED.value[0]] = "canceled"
"""Connect's names of the codes."""

HTTP_STATUS = {
    "canceled": 499,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "aborted": 409,
    "out_of_range": 400,
    "unimplemented": 501,
    "unavailable": 503,
    "unauthenticated": 401,
}
"""By Connect's specification; what is missing is 500."""


NOT_KEPT = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""No cache keeps an answer, and no browser takes it for something else."""


class FailedCallError(Exception):
    """A call failed with a status of gRPC."""

    def __init__(self, status: status_pb2.Status) -> None:
        super().__init__(status.message)
        self.status = status


@dataclass(eq=False)
class RefusedRequestError(Exception):
    """A request was refused before it was a call: an HTTP status, Connect's code, what to do."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str] | None = None


def response_of(error: FailedCallError | RefusedRequestError) -> Response:
    """Writes an error."""
    if isinstance(error, RefusedRequestError):
        value: dict[str, Any] = {"code": error.code, "message": error.message}
        return json_response(encoded(value), error.status, error.headers)
    code = CODES.get(error.status.code, "unknown")
    value = {
        "code": code,
        "message": error.status.message,
        "details": [_detail(each) for each in error.status.details],
    }
    return json_response(encoded(value), HTTP_STATUS.get(code, 500), _retry_after(error.status))


def json_response(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer in JSON, which no cache keeps."""
    headers = {**NOT_KEPT, **(headers or {})}
    return Response(body, status_code=status, headers=headers, media_type="application/json")


def _detail(detail: AnyMessage) -> dict[str, Any]:
    name = detail.TypeName()
    message: Any = symbol_database.Default().GetSymbol(name)()
    detail.Unpack(message)
    return {
        "type": name,
        # Without padding, by the specification.
        "value": base64.b64encode(detail.value).decode().rstrip("="),
        "debug": json_format.MessageToDict(message),
    }


def _retry_after(status: status_pb2.Status) -> dict[str, str]:
    """The delay of RetryInfo, in whole seconds, for clients that know HTTP alone."""
    for detail in status.details:
        retry = error_details_pb2.RetryInfo()
        if detail.Unpack(retry):
            return {"retry-after": str(max(1, retry.retry_delay.ToMilliseconds() // 1000))}
    return {}
