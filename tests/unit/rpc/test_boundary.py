from __future__ import annotations

from collections.abc import Sequence

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from serving.domain.errors import InvalidRequestError, OverloadedError, Violation
from serving.rpc.boundary import answer
from serving.telemetry import NoRecorder
from trivium.v1 import retrieval_service_pb2


class RecordingContext:
    def __init__(self) -> None:
        self.code: grpc.StatusCode | None = None
        self.details = ""
        self.trailers: Sequence[tuple[str, str | bytes]] = ()

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]]:
        return [("request_id", "r-1")]

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        self.details = details

    def set_trailing_metadata(self, metadata: Sequence[tuple[str, str | bytes]]) -> None:
        self.trailers = metadata

    @property
    def status(self) -> status_pb2.Status:
        value = dict(self.trailers)["grpc-status-details-bin"]
        assert isinstance(value, bytes)
        return status_pb2.Status.FromString(value)


async def answered(error: Exception) -> RecordingContext:
    async def method(
        request: retrieval_service_pb2.RetrieveRequest,
    ) -> retrieval_service_pb2.RetrieveResponse:
        raise error

    context = RecordingContext()
    response = await answer(
        method,
        retrieval_service_pb2.RetrieveResponse,
        retrieval_service_pb2.RetrieveRequest(tenant="acme", query="Where is Zanzibar?"),
        context,
        NoRecorder(),
    )
    assert response == retrieval_service_pb2.RetrieveResponse()
    return context


async def test_a_refusal_comes_with_code_reason_and_fields() -> None:
    context = await answered(InvalidRequestError([Violation("query", "must not be blank")]))

    info, request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    context.status.details[0].Unpack(info)
    context.status.details[1].Unpack(request)
    assert context.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (info.reason, info.domain) == ("INVALID_FIELD", "trivium.v1")
    assert request.field_violations[0].field == "query"


async def test_an_overload_says_when_to_come_back() -> None:
    context = await answered(OverloadedError("the queue", 0.25))

    retry = error_details_pb2.RetryInfo()
    context.status.details[1].Unpack(retry)
    assert context.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert retry.retry_delay.ToMilliseconds() == 250


async def test_a_fault_of_ours_tells_nothing_but_where_to_look() -> None:
    context = await answered(RuntimeError("password=secret at /srv/trivium"))

    info = error_details_pb2.RequestInfo()
    context.status.details[1].Unpack(info)
    assert context.code is grpc.StatusCode.INTERNAL
    assert info.request_id == "r-1"
    assert b"secret" not in context.status.SerializeToString()
    assert context.details == "internal error"


async def test_no_text_of_a_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="serving")

    await answered(InvalidRequestError([Violation("query", "must not be blank")]))

    line = next(record for record in caplog.records if record.getMessage() == "call")
    assert {"method", "code", "request_id", "elapsed_ms"} <= set(vars(line))
    assert not [record for record in caplog.records if "Zanzibar" in str(vars(record))]
