"""Wraps every RPC: errors become a returned status, and each call is logged and measured once.

Ray Serve drops the status details of a method that raises, and sends the text of an unknown
exception to the caller. So no exception may leave a method.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import code_pb2, status_pb2

from serving.domain.budget import RESPONSE, Deadline
from serving.domain.errors import TriviumError
from serving.domain.identity import Caller
from serving.ports.audit_log import Actor, acting
from serving.rpc.identity.authenticator import (
    Authenticator,
    CallMetadata,
    each_within_tenants,
    hide_from,
    within_tenants,
)
from serving.rpc.identity.rules import RULES
from serving.rpc.pending import PENDING_CALLS
from serving.rpc.registration import METHODS, Malformed
from serving.rpc.status import STATUS_DETAILS, internal_status, to_status
from serving.rpc.tracing import traced
from serving.telemetry import RPC_LATENCY, Recorder, Tracer

logger = logging.getLogger(__name__)

_DEADLINE: ContextVar[Deadline | None] = ContextVar("call_deadline", default=None)

REQUEST_ID = "request_id"
LONGEST_REQUEST_ID = 128
_ID_FOR_THE_LOG = re.compile(rf"[\w.:/+=@-]{{1,{LONGEST_REQUEST_ID}}}", re.ASCII)

Request = TypeVar("Request")
Response = TypeVar("Response", bound=Message)


class CallContext(CallMetadata, Protocol):
    """The part of the context of gRPC and of Ray Serve that is used here."""

    def set_code(self, code: grpc.StatusCode) -> None:
        """Sets the status code."""

    def set_details(self, details: str) -> None:
        """Sets the status message."""

    def set_trailing_metadata(self, metadata: Sequence[tuple[str, str | bytes]]) -> None:
        """Sets the trailing metadata of the response."""


_CODES = {code.value[0]: code for code in grpc.StatusCode}


class Guarded(Protocol):
    """The part of the service that every call needs."""

    @property
    def recorder(self) -> Recorder:
        """The recorder of measurements."""

    @property
    def tracer(self) -> Tracer | None:
        """The tracer of calls; None for none."""

    @property
    def authenticator(self) -> Authenticator:
        """The authenticator of callers."""


Service = TypeVar("Service", bound=Guarded)


def rpc(
    method: Callable[[Service, Request], Awaitable[Response]],
) -> Callable[[Service, Request, CallContext], Awaitable[Response]]:
    """Turns a method from request to response into the RPC of that name.

    An error becomes the status of the call, and the response is then empty.
    """
    name, rule = method.__name__, RULES[method.__name__]
    empty: Any = GetMessageClass(METHODS[name].output_type)

    # Ray Serve passes the context by the name of this parameter.
    async def call(service: Service, request: Request, grpc_context: CallContext) -> Response:
        with (
            PENDING_CALLS.in_method(),
            _status_of(name, grpc_context, service.recorder) as logged,
            traced(service.tracer, name, grpc_context, logged),
            call_deadline(grpc_context),
        ):
            caller, admitted = _admit(name, service.authenticator, request, grpc_context, logged)
            with acting(Actor(caller.name, name)):
                response = await method(service, admitted)
            hide_from(caller, rule, response)
            return response
        return empty()

    return _named(call, method)


def streaming_rpc(
    method: Callable[[Service, Any], AsyncGenerator[Response, None]],
) -> Callable[[Service, Any, CallContext], AsyncGenerator[Response, None]]:
    """Turns a method to a stream of responses into the RPC of that name.

    It takes a stream of requests, or one request; then the caller is checked again before each
    response, so that a revoked key ends the stream. An error becomes the status of the call, after
    the responses before it.
    """
    name, rule = method.__name__, RULES[method.__name__]

    async def call(
        service: Service, request: Any, grpc_context: CallContext
    ) -> AsyncGenerator[Response, None]:
        with (
            PENDING_CALLS.in_method(),
            _status_of(name, grpc_context, service.recorder) as logged,
            traced(service.tracer, name, grpc_context, logged),
        ):
            caller, admitted = _admit(name, service.authenticator, request, grpc_context, logged)
            async with aclosing(method(service, admitted)) as responses:
                async for response in responses:
                    if admitted is request:
                        service.authenticator.caller_of(name, grpc_context)
                    hide_from(caller, rule, response)
                    yield response

    return _named(call, method)


Method = TypeVar("Method", bound=Callable[..., Any])


def _named(call: Method, method: Callable[..., Any]) -> Method:
    # Not functools.wraps: Ray Serve would read the signature of the wrapped method.
    call.__name__, call.__qualname__ = method.__name__, method.__qualname__
    call.__doc__ = method.__doc__
    return call


def _admit(
    name: str,
    authenticator: Authenticator,
    request: Any,
    context: CallContext,
    logged: dict[str, object],
) -> tuple[Caller, Any]:
    """Returns the caller, and the request or stream of requests with the tenants checked."""
    caller = authenticator.caller_of(name, context)
    logged["caller"] = caller.name
    if isinstance(request, Malformed):
        raise request.error()
    if not isinstance(request, Message):
        return caller, each_within_tenants(authenticator, name, context, request.__aiter__())
    within_tenants(RULES[name], caller, request)
    return caller, request


def deadline_after(budget_s: float) -> Deadline:
    """The end of a caller's budget, or shortly before that of its gRPC call, if that is earlier.

    A budget begins when its call is seen. On a busy service calls wait before that: for the event
    loop, or in Serve's queue. The end of the gRPC call is known from when its headers arrived.
    """
    deadline, of_call = Deadline.after(budget_s), _DEADLINE.get()
    if of_call is None:
        return deadline
    return min(deadline, RESPONSE.before(of_call), key=lambda it: it.at)


@contextmanager
def call_deadline(context: object) -> Iterator[None]:
    """Lets `deadline_after` know when the call ends; also around Serve, whose context does not."""
    time_remaining = getattr(context, "time_remaining", None)
    if time_remaining is None:
        yield
        return
    left_s: float | None = time_remaining()
    known = _DEADLINE.set(None if left_s is None else Deadline.after(left_s))
    try:
        yield
    finally:
        _DEADLINE.reset(known)


@contextmanager
def _status_of(name: str, context: CallContext, recorder: Recorder) -> Iterator[dict[str, object]]:
    """Sets the status of a call that raises; logs and measures every call.

    Yields a dict for what else is logged about the call.
    """
    logged: dict[str, object] = {}
    started = time.perf_counter()
    request_id = _request_id(context)
    code = grpc.StatusCode.OK
    try:
        yield logged
    except TriviumError as error:
        code = _set_status(context, to_status(error))
    except (asyncio.CancelledError, GeneratorExit):
        code = grpc.StatusCode.CANCELLED
        raise
    except Exception:
        logger.exception("call failed unexpectedly", extra={"rpc": name, REQUEST_ID: request_id})
        code = _set_status(context, internal_status(request_id))
    finally:
        elapsed_ms = (time.perf_counter() - started) * 1e3
        labels = {"method": name, "code": code.name}
        recorder.record(RPC_LATENCY, elapsed_ms, labels)
        logged |= {**labels, REQUEST_ID: request_id, "elapsed_ms": elapsed_ms}
        logger.info("call", extra=logged)


def answer_with_error(
    name: str, context: CallContext, recorder: Recorder, error: TriviumError, **logged: object
) -> None:
    """Ends a call that no method answers with the status of an error; logs and measures it.

    `logged` is what else is logged of it.
    """
    with _status_of(name, context, recorder) as line:
        line |= logged
        raise error


def _set_status(context: CallContext, status: status_pb2.Status) -> grpc.StatusCode:
    code = _CODES.get(status.code, grpc.StatusCode.INTERNAL)
    assert status.code != code_pb2.OK, "an error has no OK status; this is a bug"
    context.set_code(code)
    context.set_details(status.message)
    context.set_trailing_metadata([(STATUS_DETAILS, status.SerializeToString())])
    return code


def _request_id(context: CallContext) -> str:
    """The caller's id for the log, or a new one; nothing else of a caller is logged unread."""
    for key, value in context.invocation_metadata() or ():
        if key == REQUEST_ID and isinstance(value, str) and _ID_FOR_THE_LOG.fullmatch(value):
            return value
    return uuid.uuid4().hex
