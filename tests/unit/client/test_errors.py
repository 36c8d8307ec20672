from __future__ import annotations

import pickle
from datetime import timedelta

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RequestInfo, RetryInfo

from tests.fakes.service import Failure, FakeService
from trivium import (
    AuthenticationError,
    Client,
    ConflictError,
    DeadlineError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PreconditionError,
    ServerError,
    TriviumError,
    UnavailableError,
    Violation,
)
from trivium.errors import DETAILS_KEY

Code = grpc.StatusCode


def failed(client: Client, service: FakeService, failure: Failure) -> TriviumError:
    """The error of a call that ends so, however often it is tried."""
    service.will_answer("GetStats", *[failure] * 4)
    with pytest.raises(TriviumError) as caught:
        client.stats()
    return caught.value


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (Code.INVALID_ARGUMENT, InvalidRequestError),
        (Code.FAILED_PRECONDITION, PreconditionError),
        (Code.UNAUTHENTICATED, AuthenticationError),
        (Code.PERMISSION_DENIED, AuthenticationError),
        (Code.UNAVAILABLE, UnavailableError),
        (Code.RESOURCE_EXHAUSTED, OverloadedError),
        (Code.DEADLINE_EXCEEDED, DeadlineError),
        (Code.INTERNAL, ServerError),
        (Code.NOT_FOUND, UnavailableError),
        (Code.ABORTED, ConflictError),
    ],
)
def test_bare_code_becomes_an_error_of_its_class(
    client: Client, fake_service: FakeService, code: grpc.StatusCode, expected: type[TriviumError]
) -> None:
    error = failed(client, fake_service, Failure(code, "no details here"))

    assert (type(error), error.code, error.reason) == (expected, code, "")
    assert str(error) == f"{code.name}: no details here"


def test_unknown_item_is_no_missing_service(client: Client, fake_service: FakeService) -> None:
    details = [ErrorInfo(reason="ITEM_NOT_FOUND", metadata={"kind": "segment", "id": "a"})]

    error = failed(client, fake_service, Failure(Code.NOT_FOUND, "there is no segment", details))

    assert type(error) is NotFoundError


@pytest.mark.parametrize(("metadata", "version"), [({"version": "7"}, 7), ({}, 0)])
def test_conflict_has_the_present_version(
    client: Client, fake_service: FakeService, metadata: dict[str, str], version: int
) -> None:
    details = [ErrorInfo(reason="VERSION_CONFLICT", metadata=metadata)]

    error = failed(client, fake_service, Failure(Code.ABORTED, "has version 7", details))

    assert isinstance(error, ConflictError)
    assert error.version == version


def test_violations_are_decoded(client: Client, fake_service: FakeService) -> None:
    violation = BadRequest.FieldViolation(field="limit", description="below 0")
    details = [
        ErrorInfo(reason="INVALID_FIELD", domain="trivium.v1", metadata={"limit": "-1"}),
        BadRequest(field_violations=[violation]),
    ]

    error = failed(client, fake_service, Failure(Code.INVALID_ARGUMENT, "limit", details))

    assert error.reason == "INVALID_FIELD"
    assert error.details.metadata == {"limit": "-1"}
    assert error.violations == (Violation("limit", "below 0"),)
    assert error.retry_delay is None


def test_retry_delay_and_request_id_are_decoded(client: Client, fake_service: FakeService) -> None:
    later = [RetryInfo(retry_delay=Duration(nanos=250_000_000)), RequestInfo(request_id="r-7")]

    error = failed(client, fake_service, Failure(Code.RESOURCE_EXHAUSTED, "full", later))

    assert error.retry_delay == timedelta(milliseconds=250)
    assert error.details.request_id == "r-7"


def test_malformed_details_count_as_none(client: Client, fake_service: FakeService) -> None:
    class Garbled(Failure):
        def apply(self, context: grpc.ServicerContext) -> None:
            context.set_trailing_metadata(((DETAILS_KEY, b"\xff\xff"),))
            context.abort(self.code, self.message)

    error = failed(client, fake_service, Garbled(Code.INTERNAL, "oops"))

    assert (str(error), error.violations) == ("INTERNAL: oops", ())


def test_error_survives_pickling(client: Client, fake_service: FakeService) -> None:
    info = ErrorInfo(reason="OVERLOADED", domain="trivium.v1")
    error = failed(client, fake_service, Failure(Code.RESOURCE_EXHAUSTED, "full", [info]))

    copied = pickle.loads(pickle.dumps(error))

    assert type(copied) is OverloadedError
    assert (copied.args, copied.details) == (error.args, error.details)
