"""Around every method: a status is returned, never raised; one access line; one measurement.

Ray Serve drops the details of a method that raises, and answers an unknown
exception with its text, so nothing may get past this.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc import code_pb2, status_pb2

from serving.domain.errors import TriviumError
from serving.rpc.registration import Malformed
from serving.rpc.status import internal_status, to_status
from serving.telemetry import RPC_LATENCY, Recorder

logger = logging.getLogger(__name__)

REQUEST_ID = "request_id"
STATUS_DETAILS = "grpc-status-details-bin"

Request = TypeVar("Request")
Response = TypeVar("Response", bound=Message)


class CallContext(Protocol):
    """What is used of grpc's and of Ray Serve's context."""

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]] | None:
        """The caller's metadata."""
        ...

    def set_code(self, code: grpc.StatusCode) -> None:
        """Sets the status code."""
        ...

    def set_details(self, details: str) -> None:
        """Sets the status message."""
        ...

    def set_trailing_metadata(self, metadata: Sequence[tuple[str, str | bytes]]) -> None:
        """Sets what follows the response."""
        ...


_CODES = {code.value[0]: code for code in grpc.StatusCode}


async def answer(
    method: Callable[[Request], Awaitable[Response]],
    response_type: type[Response],
    request: Request,
    context: CallContext,
    recorder: Recorder,
) -> Response:
    """Runs a method; an error becomes the call's status, and the response stays empty."""
    started = time.perf_counter()
    name = response_type.DESCRIPTOR.name.removesuffix("Response")
    request_id = _request_id(context)
    code = grpc.StatusCode.OK
    try:
        if isinstance(request, Malformed):
            request.refuse()
        return await method(request)
    except TriviumError as error:
        code = _refuse(context, to_status(error))
    except asyncio.CancelledError:
        code = grpc.StatusCode.CANCELLED
        raise
    except Exception:
        logger.exception("call failed unexpectedly", extra={"rpc": name, REQUEST_ID: request_id})
        code = _refuse(context, internal_status(request_id))
    finally:
        elapsed_ms = (time.perf_counter() - started) * 1e3
        labels = {"method": name, "code": code.name}
        recorder.record(RPC_LATENCY, elapsed_ms, labels)
        logger.info("call", extra={**labels, REQUEST_ID: request_id, "elapsed_ms": elapsed_ms})
    return response_type()


def _refuse(context: CallContext, status: status_pb2.Status) -> grpc.StatusCode:
    code = _CODES.get(status.code, grpc.StatusCode.INTERNAL)
    assert status.code != code_pb2.OK, "an error has no OK status; this is a bug"
    context.set_code(code)
    context.set_details(status.message)
    context.set_trailing_metadata([(STATUS_DETAILS, status.SerializeToString())])
    return code


def _request_id(context: CallContext) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == REQUEST_ID:
            return value if isinstance(value, str) else value.decode(errors="replace")
    return uuid.uuid4().hex
