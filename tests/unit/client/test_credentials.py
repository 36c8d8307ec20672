from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.fakes.service import FakeService
from trivium import TLS, Client
from trivium.cli.app import trivium
from trivium.wire.credentials import is_on_this_machine


@pytest.mark.parametrize(
    ("target", "here"),
    [
        ("127.0.0.1:9000", True),
        ("localhost:9000", True),
        ("[::1]:9000", True),
        ("unix:/run/trivium", True),
        ("memory.example:9000", False),
        ("10.0.0.1:9000", False),
        ("localhost.example:9000", False),
        ("127.0.0.1.example:9000", False),
        ("memory.example", False),
        ("", False),
    ],
)
def test_loopback_addresses_are_on_this_machine(target: str, *, here: bool) -> None:
    assert is_on_this_machine(target) == here


def test_token_is_not_sent_in_clear_text_elsewhere() -> None:
    with pytest.raises(ValueError, match="without TLS"):
        Client("memory.example:9000", token="trv_secret")
    with Client("memory.example:9000", token="trv_secret", tls=TLS()):
        pass


def test_a_token_is_sent_with_every_call(fake_service: FakeService) -> None:
    with Client(fake_service.address, token="trv_secret") as client:
        client.stats()

    assert [sent["authorization"] for sent in fake_service.metadata] == ["Bearer trv_secret"]


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
