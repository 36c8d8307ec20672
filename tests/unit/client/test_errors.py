from __future__ import annotations

import os
import pickle
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RequestInfo, RetryInfo

from tests.fakes.service import Failure, FakeService
from trivium import (
    TLS,
    AsyncClient,
    AuthenticationError,
    Client,
    ConflictError,
    DeadlineError,
    ErrorDetails,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PreconditionError,
    ServerError,
    TriviumError,
    UnavailableError,
    Violation,
)
from trivium.cli.app import trivium
from trivium.errors import DETAILS_KEY
from trivium.wire.credentials import is_on_this_machine

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


def test_details_are_decoded(client: Client, fake_service: FakeService) -> None:
    violation = BadRequest.FieldViolation(field="limit", description="below 0")
    details = [
        ErrorInfo(reason="INVALID_FIELD", domain="trivium.v1", metadata={"limit": "-1"}),
        BadRequest(field_violations=[violation]),
        RetryInfo(retry_delay=Duration(nanos=250_000_000)),
        RequestInfo(request_id="r-7"),
    ]

    error = failed(client, fake_service, Failure(Code.INVALID_ARGUMENT, "limit", details))

    assert error.details == ErrorDetails(
        reason="INVALID_FIELD",
        metadata={"limit": "-1"},
        violations=(Violation("limit", "below 0"),),
        retry_delay=timedelta(milliseconds=250),
        request_id="r-7",
    )
    assert (error.reason, error.violations) == ("INVALID_FIELD", error.details.violations)


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


# ---------------------------------------------------------------- credentials


@pytest.mark.parametrize(
    ("target", "here"),
    [
        *((f"{host}:9000", True) for host in ("127.0.0.1", "localhost", "[::1]")),
        ("unix:/run/trivium", True),
        *((f"{host}:9000", False) for host in ("memory.example", "10.0.0.1")),
        *((f"{host}.example:9000", False) for host in ("localhost", "127.0.0.1")),
        ("memory.example", False),
        ("", False),
    ],
)
def test_loopback_addresses_are_on_this_machine(target: str, *, here: bool) -> None:
    assert is_on_this_machine(target) == here


CLEAR = "in clear text"


def elsewhere(service: FakeService) -> str:
    """The address of a service under a name that is not of loopback, and yet leads there."""
    return service.address.replace("127.0.0.1", "0.0.0.0")


@pytest.mark.parametrize(
    "credentials", [{"token": "trv_secret"}, {"metadata": [("Authorization", "Bearer trv_secret")]}]
)
async def test_no_token_is_sent_in_clear_text(
    fake_service: FakeService, credentials: dict[str, Any]
) -> None:
    with (
        pytest.raises(ValueError, match=CLEAR),
        Client(elsewhere(fake_service), **credentials) as c,
    ):
        c.stats()
    with pytest.raises(ValueError, match=CLEAR):
        async with AsyncClient(elsewhere(fake_service), **credentials) as client:
            await client.stats()

    assert fake_service.requests == []


def test_token_goes_where_clear_text_is_allowed(fake_service: FakeService) -> None:
    address = elsewhere(fake_service)
    with Client(address, token="trv_secret", token_without_tls=True) as client:
        client.stats()
    with Client(fake_service.address, token="trv_secret") as on_this_machine:
        on_this_machine.stats()

    assert [sent["authorization"] for sent in fake_service.metadata] == ["Bearer trv_secret"] * 2


def test_token_over_tls_goes_anywhere() -> None:
    with Client("memory.example:9000", token="trv_secret", tls=TLS()):
        pass


def test_command_line_sends_no_token_in_clear_text(fake_service: FakeService) -> None:
    command = ["--address", elsewhere(fake_service)]
    key = {"TRIVIUM_TOKEN": "trv_secret"}
    refused = CliRunner().invoke(trivium, [*command, "stats"], env=key)

    assert (refused.exit_code, fake_service.requests) == (2, [])
    assert "TRIVIUM_TLS=1" in refused.output
    done = CliRunner().invoke(trivium, [*command, "--token-without-tls", "stats"], env=key)
    assert done.exit_code == 0, done.output
    assert fake_service.metadata[0]["authorization"] == "Bearer trv_secret"


ASK = """
import sys
from trivium import Client
with Client(sys.argv[1], tenant="acme", token="trv_secret") as client:
    client.stats()
"""


def test_no_proxy_sees_calls_to_this_machine(fake_service: FakeService) -> None:
    # gRPC reads the variable once, so the client is a process of its own.
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:1"}  # noqa: TID251 - for a child
    command = [sys.executable, "-c", ASK, fake_service.address]
    subprocess.run(command, env=environment, check=True, timeout=60)

    assert fake_service.metadata[0]["authorization"] == "Bearer trv_secret"


def test_a_key_without_its_certificate_is_rejected() -> None:
    with pytest.raises(ValueError, match="both or none"):
        TLS(key=Path("key"))


@pytest.mark.parametrize("token", ["trv_secret\n", "trv_s\u00e9cret"])
def test_token_that_no_header_has_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII"):
        Client("127.0.0.1:1", token=token)

    ended = CliRunner().invoke(trivium, ["--tenant", "a", "stats"], env={"TRIVIUM_TOKEN": token})
    assert ended.exit_code == 2
    assert "printable ASCII" in ended.output


def test_command_line_takes_only_a_token_file(fake_service: FakeService, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("trv_secret\n")
    address = ["--address", fake_service.address]

    refused = CliRunner().invoke(trivium, [*address, "--token", "trv_secret", "stats"])
    assert refused.exit_code == 2
    assert "--token-file" in refused.output
    for options, environment in (
        (["--token-file", str(tmp_path / "token")], {}),
        ([], {"TRIVIUM_TOKEN": "trv_secret"}),
    ):
        fake_service.metadata.clear()
        done = CliRunner().invoke(trivium, [*address, *options, "stats"], env=environment)

        assert done.exit_code == 0, done.output
        assert [sent["authorization"] for sent in fake_service.metadata] == ["Bearer trv_secret"]
