"""Converts errors into google.rpc.Status with one ErrorInfo each."""

from __future__ import annotations

from google.rpc import code_pb2, error_details_pb2, status_pb2

from serving.domain.errors import (
    BudgetExhaustedError,
    ChangesGoneError,
    InvalidRequestError,
    ItemNotFoundError,
    OverloadedError,
    PermissionDeniedError,
    TextSearchConfigConflictError,
    TooSlowError,
    TriviumError,
    UnauthenticatedError,
    UnavailableError,
    VersionConflictError,
    Violation,
)
from serving.rpc.items import duration

ERROR_DOMAIN = "trivium.v1"
STATUS_DETAILS = "grpc-status-details-bin"
"""The trailing metadata in which gRPC carries a status with its details."""
STORE_RETRY_S = 0.5

MAX_TEXT_BYTES = 2048
"""Of the message of a status, and of what its details repeat. A client of gRPC may refuse a status
above 8 KiB, message and details together, and then reports RESOURCE_EXHAUSTED instead."""
MAX_FIELD_BYTES = 256
ELLIPSIS = "..."

_CODES: list[tuple[type[TriviumError], int]] = [
    (InvalidRequestError, code_pb2.INVALID_ARGUMENT),
    (UnauthenticatedError, code_pb2.UNAUTHENTICATED),
    (PermissionDeniedError, code_pb2.PERMISSION_DENIED),
    (TextSearchConfigConflictError, code_pb2.FAILED_PRECONDITION),
    (ItemNotFoundError, code_pb2.NOT_FOUND),
    (VersionConflictError, code_pb2.ABORTED),
    (ChangesGoneError, code_pb2.FAILED_PRECONDITION),
    (OverloadedError, code_pb2.RESOURCE_EXHAUSTED),
    (BudgetExhaustedError, code_pb2.DEADLINE_EXCEEDED),
    (TooSlowError, code_pb2.DEADLINE_EXCEEDED),
    (UnavailableError, code_pb2.UNAVAILABLE),
]


def to_status(error: TriviumError) -> status_pb2.Status:
    """Writes an error of the domain with its details.

    Of an invalid request with many fields that are wrong, the first ones are listed.
    """
    if isinstance(error, InvalidRequestError):
        error = _first_violations(error)
    code = next((code for kind, code in _CODES if isinstance(error, kind)), code_pb2.INTERNAL)
    status = status_pb2.Status(code=code, message=_cut(str(error), MAX_TEXT_BYTES))
    metadata = {name: _cut(value, MAX_FIELD_BYTES) for name, value in error.metadata.items()}
    status.details.add().Pack(
        error_details_pb2.ErrorInfo(reason=error.reason, domain=ERROR_DOMAIN, metadata=metadata)
    )
    if isinstance(error, InvalidRequestError):
        bad_request = error_details_pb2.BadRequest()
        for field, description in error.violations:
            bad_request.field_violations.add(field=field, description=description)
        status.details.add().Pack(bad_request)
    if isinstance(error, OverloadedError | UnavailableError):
        retry_s = error.retry_after_s if isinstance(error, OverloadedError) else STORE_RETRY_S
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=duration(retry_s)))
    return status


def internal_status(request_id: str) -> status_pb2.Status:
    """The status of an unexpected error: it has the request id for the log, and no message."""
    status = status_pb2.Status(code=code_pb2.INTERNAL, message="internal error")
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="INTERNAL", domain=ERROR_DOMAIN))
    status.details.add().Pack(error_details_pb2.RequestInfo(request_id=request_id))
    return status


def _first_violations(error: InvalidRequestError) -> InvalidRequestError:
    """The violations that fit into a status, and how many more there are."""
    left, shown = MAX_TEXT_BYTES - MAX_FIELD_BYTES, list[Violation]()
    for each in error.violations:
        violation = Violation(*(_cut(text, MAX_FIELD_BYTES) for text in each))
        left -= sum(map(_size, violation)) + len(": ; ")
        if left < 0:
            more = len(error.violations) - len(shown)
            return InvalidRequestError([*shown, Violation("request", f"has {more} more of these")])
        shown.append(violation)
    return InvalidRequestError(shown)


def _size(text: str) -> int:
    """The bytes of a text in a header of gRPC, where what is not printable ASCII takes more."""
    return sum(1 if " " <= each <= "~" and each != "%" else 3 * len(each.encode()) for each in text)


def _cut(text: str, most: int) -> str:
    """A text of at most `most` bytes in a header."""
    if _size(text) <= most:
        return text
    kept, left = 0, most - _size(ELLIPSIS)
    for each in text:
        left -= _size(each)
        if left < 0:
            break
        kept += 1
    return text[:kept] + ELLIPSIS
