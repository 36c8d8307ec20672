from __future__ import annotations

import inspect
import logging
import re
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RequestInfo, RetryInfo

from serving.domain import errors
from serving.domain.budget import Deadline
from serving.domain.errors import (
    InvalidRequestError,
    OverloadedError,
    TextSearchConfigConflictError,
    Violation,
)
from serving.rpc.boundary import deadline_after, rpc
from serving.rpc.service import TriviumService
from tests.support.answers import MAX_HEADER_BYTES, header_bytes
from tests.unit.http.requesting import FakeRpcs
from tests.unit.rpc.calling import Call
from trivium.v1.error_reason_pb2 import ErrorReason
from trivium.v1.retrieval_service_pb2 import RetrieveRequest, RetrieveResponse

QUESTION = RetrieveRequest(tenant="acme", query="Where is Zanzibar?")


def failing(error: Exception) -> Any:
    return FakeRpcs(error=error)


async def answered(error: Exception) -> Call:
    context = Call()
    response = await failing(error).Retrieve(QUESTION, context)
    assert response == RetrieveResponse()
    return context


def test_ray_serve_finds_the_parameter_for_the_context() -> None:
    method = TriviumService.Retrieve

    assert list(inspect.signature(method).parameters)[-1] == "grpc_context"
    assert inspect.iscoroutinefunction(method)
    assert (method.__name__, method.__doc__) == ("Retrieve", "Runs a query.")


async def test_a_refusal_comes_with_code_reason_and_fields() -> None:
    context = await answered(InvalidRequestError([Violation("query", "must not be blank")]))

    info = context.detail(ErrorInfo)
    assert context.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (info.reason, info.domain) == ("INVALID_FIELD", "trivium.v1")
    assert context.detail(BadRequest).field_violations[0].field == "query"


@pytest.mark.parametrize("field", ["ids", "names.Zoë%", "\u202e" * 9000, "x" * 9000])
async def test_long_rejection_lists_only_fields_that_fit(field: str) -> None:
    wrong = [Violation(f"{field}[{place}]", "must not be blank") for place in range(1000)]

    context = await answered(InvalidRequestError(wrong))

    *shown, last = context.detail(BadRequest).field_violations
    assert header_bytes(context.status) <= MAX_HEADER_BYTES
    assert shown[0].field.startswith(field[:9])
    assert (last.field, last.description) == ("request", f"has {1000 - len(shown)} more of these")


async def test_error_with_long_names_reaches_the_caller() -> None:
    context = await answered(TextSearchConfigConflictError("Zoë" * 80, "english", "x" * 9000))

    assert header_bytes(context.status) <= MAX_HEADER_BYTES
    assert context.details == context.status.message


async def test_an_overload_says_when_to_come_back() -> None:
    context = await answered(OverloadedError("the queue", 0.25))

    assert context.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert context.detail(RetryInfo).retry_delay.ToMilliseconds() == 250


async def test_internal_error_reveals_only_the_request_id() -> None:
    context = await answered(RuntimeError("password=secret at /srv/trivium"))

    assert context.code is grpc.StatusCode.INTERNAL
    assert context.detail(RequestInfo).request_id == "r-1"
    assert b"secret" not in context.status.SerializeToString()
    assert context.details == "internal error"


def logged(caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    """The line about the call."""
    return next(record for record in caplog.records if record.getMessage() == "call")


async def test_no_text_of_a_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="serving")

    await answered(InvalidRequestError([Violation("query", "must not be blank")]))

    line = logged(caplog)
    assert {"method", "code", "request_id", "elapsed_ms"} <= set(vars(line))
    assert not [record for record in caplog.records if "Zanzibar" in str(vars(record))]


@pytest.mark.parametrize("given", ["x" * 129, "a\nb", "\x1b[2J", b"\xff", ""])
async def test_request_id_unfit_for_logs_is_replaced(
    given: str | bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="serving")

    await failing(RuntimeError()).Retrieve(QUESTION, Call([("request_id", given)]))

    assert re.fullmatch("[0-9a-f]{32}", vars(logged(caplog))["request_id"])


class EndingContext(Call):
    """The context of a call that ends in a while; None if it has no end."""

    def __init__(self, left_s: float | None) -> None:
        super().__init__()
        self._left_s = left_s

    def time_remaining(self) -> float | None:
        return self._left_s


class Timed(FakeRpcs):
    """A service that notes the deadline of a budget of ten seconds."""

    deadline: Deadline

    @rpc
    async def Retrieve(self, request: RetrieveRequest) -> RetrieveResponse:  # noqa: N802
        """Notes it."""
        del request
        self.deadline = deadline_after(10)
        return RetrieveResponse()


@pytest.mark.parametrize(
    ("context", "left_s"),
    [
        (EndingContext(5), 4.5),
        (EndingContext(60), 10),
        (EndingContext(0), 0),
        (EndingContext(None), 10),
        (Call(), 10),
    ],
    ids=["ends before", "ends later", "has ended", "has no end", "ends unknown"],
)
async def test_call_has_its_budget_or_most_remaining_time(context: Call, left_s: float) -> None:
    service = Timed()

    await service.Retrieve(QUESTION, context)

    assert service.deadline.remaining() == pytest.approx(left_s, abs=0.2)
    assert deadline_after(10).remaining() == pytest.approx(10, abs=0.2), "the call has ended"


ERRORS = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, errors.TriviumError)
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_reason_of_each_error_is_published(error: type[errors.TriviumError]) -> None:
    assert ErrorReason.Value(f"ERROR_REASON_{error.reason}") > 0
