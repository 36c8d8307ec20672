from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.fakes.service import FakeService
from trivium import TLS, AsyncClient, Client
from trivium.cli.app import trivium
from trivium.wire.credentials import is_on_this_machine


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


def test_no_proxy_sees_what_is_for_this_machine(fake_service: FakeService) -> None:
    # gRPC reads the variable once, so the client is a process of its own.
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:1"}  # noqa: TID251 - for a child
    command = [sys.executable, "-c", ASK, fake_service.address]
    subprocess.run(command, env=environment, check=True, timeout=60)

    assert fake_service.metadata[0]["authorization"] == "Bearer trv_secret"


def test_a_key_without_its_certificate_is_rejected() -> None:
    with pytest.raises(ValueError, match="both or none"):
        TLS(key=Path("key"))


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
