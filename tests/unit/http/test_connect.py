"""Connect's unary protocol: what its specification says of requests and answers."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from google.rpc import error_details_pb2

from serving.domain.errors import (
    InvalidRequestError,
    OverloadedError,
    StoreUnavailableError,
    TriviumError,
    UnauthenticatedError,
    Violation,
)
from serving.rpc.boundary import rpc
from serving.rpc.registration import METHODS
from tests.unit.http.requesting import JSON, FakeRpcs, posted, sent
from trivium.v1 import retrieval_service_pb2 as retrieval_pb

RETRIEVE = "/trivium.v1.RetrievalService/Retrieve"
ASKED = {"tenant": "acme", "query": "Where is Zanzibar?"}
REQUEST = retrieval_pb.RetrieveRequest(tenant="acme", query="Where is Zanzibar?")
ANSWER = retrieval_pb.RetrieveResponse(
    profile="default",
    hits=[retrieval_pb.Hit(rank=1, score=0.5)],
    statistics=retrieval_pb.Statistics(candidate_count=3, index_epoch=7),
)


async def test_json_is_answered_in_camel_case() -> None:
    service = FakeRpcs(ANSWER)

    answer = await posted(service, RETRIEVE, ASKED)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    # By ProtoJSON, an integer of 64 bits is a text.
    statistics = {"candidateCount": 3, "indexEpoch": "7"}
    hits = [{"rank": 1, "score": 0.5}]
    assert answer.json() == {"profile": "default", "hits": hits, "statistics": statistics}
    assert service.requests == [REQUEST]


async def test_binary_requests_get_binary_answers() -> None:
    service = FakeRpcs(ANSWER)

    body, headers = REQUEST.SerializeToString(), {"content-type": "application/proto"}
    answer = await sent(service, "POST", RETRIEVE, content=body, headers=headers)

    assert answer.headers["content-type"] == "application/proto"
    assert retrieval_pb.RetrieveResponse.FromString(answer.content) == ANSWER
    assert service.requests == [REQUEST]


async def test_unknown_json_fields_are_ignored() -> None:
    service = FakeRpcs()

    answer = await posted(service, RETRIEVE, {**ASKED, "newer": 1})

    assert answer.status_code == 200
    assert service.requests == [REQUEST]


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (InvalidRequestError([Violation("query", "blank")]), 400, "invalid_argument", None),
        (UnauthenticatedError("send a key"), 401, "unauthenticated", None),
        (OverloadedError("answers", 2.5), 429, "resource_exhausted", "2"),
        (StoreUnavailableError("gone"), 503, "unavailable", "1"),
    ],
)
async def test_errors_have_the_code_and_details_of_grpc(
    error: TriviumError, status: int, code: str, retry_after: str | None
) -> None:
    answer = await posted(FakeRpcs(error=error), RETRIEVE, ASKED)

    assert (answer.status_code, answer.headers.get("retry-after")) == (status, retry_after)
    said = answer.json()
    assert (said["code"], said["message"]) == (code, str(error))
    first = said["details"][0]
    assert first["type"] == "google.rpc.ErrorInfo"
    assert first["debug"]["reason"] == error.reason
    assert not first["value"].endswith("=")
    decoded = base64.b64decode(first["value"] + "==")
    assert error_details_pb2.ErrorInfo.FromString(decoded).reason == error.reason


async def test_unexpected_errors_do_not_tell_their_text() -> None:
    service = FakeRpcs(error=RuntimeError("/a/path/of/ours"))

    answer = await posted(service, RETRIEVE, ASKED)

    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "ours" not in answer.text


class Waiting(FakeRpcs):
    """Answers never, and says whether it still tries."""

    waiting = False

    @rpc
    async def Retrieve(  # noqa: N802
        self, request: retrieval_pb.RetrieveRequest
    ) -> retrieval_pb.RetrieveResponse:
        self.waiting = True
        try:
            await asyncio.Event().wait()
        finally:
            self.waiting = False
        raise AssertionError


async def test_call_ends_when_its_timeout_is_over() -> None:
    service = Waiting()

    answer = await posted(service, RETRIEVE, ASKED, connect_timeout_ms="50")

    assert (answer.status_code, answer.json()["code"]) == (504, "deadline_exceeded")
    assert answer.json()["details"][0]["debug"]["reason"] == "TIME_BUDGET_EXHAUSTED"
    assert not service.waiting  # on a busy machine it may not even have begun


async def test_call_that_comes_too_late_is_none() -> None:
    service = FakeRpcs()

    answer = await posted(service, RETRIEVE, ASKED, connect_timeout_ms="0")

    assert (answer.status_code, answer.json()["code"]) == (504, "deadline_exceeded")
    assert service.requests == []


@pytest.mark.parametrize("body", [b"[1]", b"null", b" 7", b'"x"'])
async def test_json_that_is_no_object_is_told(body: bytes) -> None:
    answer = await sent(FakeRpcs(), "POST", RETRIEVE, content=body, headers=JSON)

    assert answer.json()["message"] == "request: is no object of JSON"


@pytest.mark.parametrize("given", ["", "-1", "1.5", "soon", "1" * 11, "\uff11"])
async def test_timeout_that_is_no_number_is_refused(given: str) -> None:
    headers = [("connect-timeout-ms", given.encode())]

    answer = await sent(FakeRpcs(), "POST", RETRIEVE, json=ASKED, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/connect+json"},
        {},
        {**JSON, "content-encoding": "gzip"},
    ],
)
async def test_other_content_types_never_reach_the_service(headers: dict[str, str]) -> None:
    service = FakeRpcs()

    answer = await sent(service, "POST", RETRIEVE, content=b"{}", headers=headers)

    assert answer.status_code == 415
    assert service.requests == []


async def test_other_versions_of_connect_are_refused() -> None:
    answer = await posted(FakeRpcs(), RETRIEVE, ASKED, connect_protocol_version="2")

    assert answer.status_code == 400


HOSTILE: list[bytes] = [
    b"{",
    b"[]",
    b"null",
    b"[" * 100_000,
    b'{"filter":' * 50_000,
    b'{"query": "\\ud800"}',
    b'{"query": "\xff"}',
    b'{"query": 1}',
    b'{"limit": 1e400}',
    b'{"limit": 99999999999999999999}',
    b'{"limit": ' + b"9" * 5000 + b"}",
    b'{"asOf": "yesterday"}',
    b'{"asOf": 1}',
    b'{"timeBudget": "NaNs"}',
    b'{"vector": {"a": 1}}',
    b'{"vector": [NaN, "Infinity", 1e39]}',
    b'{"tenant": "a", "tenant": "b"}',
    b'{"profileOverrides": []}',
    b'{"explain": "yes"}',
    b'{"legOverrides": "x"}',
    b'{"filter": {"eventTime": {"start": "0000-01-01T00:00:00Z"}}}',
]


@pytest.mark.parametrize("body", HOSTILE)
@pytest.mark.parametrize("path", [RETRIEVE, "/v1/retrieve", "/v1/query", "/recollect"])
async def test_hostile_json_is_an_invalid_argument(path: str, body: bytes) -> None:
    service = FakeRpcs()

    answer = await sent(service, "POST", path, content=body, headers=JSON)

    if answer.status_code != 200:  # some are valid for one of them
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")
        assert answer.json()["details"][0]["debug"]["reason"] == "INVALID_FIELD"
        assert service.requests == []


@pytest.mark.parametrize(
    "method", [each for each in METHODS.values() if each.client_streaming], ids=lambda it: it.name
)
async def test_streams_are_refused_with_a_pointer_to_grpc(method: Any) -> None:
    path = f"/{method.containing_service.full_name}/{method.name}"

    answer = await sent(FakeRpcs(), "POST", path, content=b"{}", headers=JSON)

    assert (answer.status_code, answer.json()["code"]) == (501, "unimplemented")
    assert "gRPC" in answer.json()["message"]
