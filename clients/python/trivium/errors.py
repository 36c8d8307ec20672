"""The errors of a call, by what the caller can do about them.

    TriviumError
    |-- InvalidRequestError   the request is invalid; do not retry
    |-- PreconditionError     the tenant's state does not allow the call; do not retry
    |-- NotFoundError         the item to change is not stored; do not retry
    |-- ConflictError         the item has another version: read it again, and decide
    |-- AuthenticationError   the credentials are missing or not sufficient
    |-- UnavailableError      the service or its dependencies are unreachable; retry later
    |-- OverloadedError       the service is too busy; retry after `retry_delay`
    |-- DeadlineError         the deadline passed; retry
    `-- ServerError           any other error; a fault of the server

A status may have no details, for example if a proxy rejected the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, TypeVar, cast

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2

DETAILS_KEY = "grpc-status-details-bin"
"""The trailing metadata in which gRPC carries a google.rpc.Status."""


class Violation(NamedTuple):
    """An invalid field of a request."""

    field: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDetails:
    """The details of a status besides code and message; empty if it has none.

    `reason` is a value of `trivium.v1.ErrorReason` without its prefix,
    `retry_delay` the time after which a retry may succeed, `request_id` the
    id of the call in the server's log.
    """

    reason: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    violations: tuple[Violation, ...] = ()
    retry_delay: timedelta | None = None
    request_id: str = ""


NO_DETAILS = ErrorDetails()

_Detail = TypeVar("_Detail", bound=Message)


class TriviumError(Exception):
    """The base of all errors of a call."""

    def __init__(
        self, code: grpc.StatusCode, message: str, details: ErrorDetails = NO_DETAILS
    ) -> None:
        super().__init__(code, message, details)
        self.code = code
        self.message = message
        self.details = details

    def __str__(self) -> str:
        return f"{self.reason or self.code.name}: {self.message or 'no message'}"

    @property
    def reason(self) -> str:
        """The server's reason; empty if the status has no details."""
        return self.details.reason

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The invalid fields of the request."""
        return self.details.violations

    @property
    def retry_delay(self) -> timedelta | None:
        """The time after which a retry may succeed, if known."""
        return self.details.retry_delay


class InvalidRequestError(TriviumError):
    """The request is invalid; `violations` has the fields."""


class PreconditionError(TriviumError):
    """The tenant's state does not allow the call, such as its text-search configuration."""


class NotFoundError(TriviumError):
    """The item to change is not stored."""


class ConflictError(TriviumError):
    """The item has another version, which `version` is."""

    @property
    def version(self) -> int:
        """The present version; 0 if the status has no details."""
        return int(self.details.metadata.get("version", 0))


class AuthenticationError(TriviumError):
    """The credentials are missing or not sufficient."""


class UnavailableError(TriviumError):
    """The service or its dependencies are unreachable."""


class OverloadedError(TriviumError):
    """The service is too busy to answer in time."""


class DeadlineError(TriviumError):
    """The deadline passed."""


class ServerError(TriviumError):
    """The server failed, or returned a code that this API does not use."""


_CLASSES: Mapping[grpc.StatusCode, type[TriviumError]] = {
    # Without a reason it is of Ray Serve, while that has no application to call.
    grpc.StatusCode.NOT_FOUND: UnavailableError,
    grpc.StatusCode.ABORTED: ConflictError,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.FAILED_PRECONDITION: PreconditionError,
    grpc.StatusCode.UNAUTHENTICATED: AuthenticationError,
    grpc.StatusCode.PERMISSION_DENIED: AuthenticationError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: OverloadedError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineError,
}


def to_error(call: grpc.RpcError) -> TriviumError:
    """Converts a failed call of either client into the error of its status."""
    code = call.code()
    details = _read_details(call)
    error_class = _CLASSES.get(code, ServerError)
    if details.reason == "ITEM_NOT_FOUND":
        error_class = NotFoundError
    return error_class(code, call.details() or "", details)


def error_of(code: int, message: str) -> TriviumError:
    """The error of a code of google.rpc.Code, without details."""
    status = next((each for each in grpc.StatusCode if each.value[0] == code), None)
    status = status or grpc.StatusCode.UNKNOWN
    return _CLASSES.get(status, ServerError)(status, message)


def failure_for_model(error: TriviumError | ValueError) -> str:
    """The message of a failed tool to its model: whether another question may help."""
    if isinstance(error, InvalidRequestError | ValueError):
        reason = error.message if isinstance(error, InvalidRequestError) else str(error)
        return f"The memory cannot answer this question: {reason}. Ask another one."
    return "The memory cannot be asked at the moment. Go on without it."


def not_connected() -> UnavailableError:
    """The error for a connection that was not established in time."""
    return UnavailableError(grpc.StatusCode.UNAVAILABLE, "no connection within the timeout")


def _read_details(call: grpc.RpcError) -> ErrorDetails:
    try:
        status = status_pb2.Status.FromString(_encoded_details(call))
    except DecodeError:
        return NO_DETAILS
    info = _unpack(status, error_details_pb2.ErrorInfo)
    bad_request = _unpack(status, error_details_pb2.BadRequest)
    retry = _unpack(status, error_details_pb2.RetryInfo)
    request = _unpack(status, error_details_pb2.RequestInfo)
    return ErrorDetails(
        reason=info.reason,
        metadata=dict(info.metadata),
        violations=tuple(
            Violation(violation.field, violation.description)
            for violation in bad_request.field_violations
        ),
        retry_delay=retry.retry_delay.ToTimedelta() if retry.HasField("retry_delay") else None,
        request_id=request.request_id,
    )


def _encoded_details(call: grpc.RpcError) -> bytes:
    # The metadata of both kinds of channel are pairs of key and value, of different types.
    metadata = cast(Iterable[tuple[str, str | bytes]], call.trailing_metadata() or ())
    found = [value for key, value in metadata if key == DETAILS_KEY and isinstance(value, bytes)]
    return found[0] if found else b""


def _unpack(status: status_pb2.Status, kind: type[_Detail]) -> _Detail:
    """The first detail of that kind, or an empty message; a malformed one counts as absent."""
    message = kind()
    for detail in status.details:
        if detail.Is(kind.DESCRIPTOR):
            try:
                detail.Unpack(message)
            except DecodeError:
                return kind()
            return message
    return message
