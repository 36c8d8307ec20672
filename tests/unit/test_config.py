"""What is said of settings that are wrong."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from serving.__main__ import EXIT_MISCONFIGURED, main
from serving.config import load_settings

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("variable", "field"),
    [
        ("TRIVIUM_POSTGRES__DNS", "postgres.dns"),
        ("TRIVIUM_NEO4J__PASSWD", "neo4j.passwd"),
        ("TRIVIUM_SERVE__GRPC_PORT", "serve.grpc_port"),
    ],
)
def test_a_wrong_setting_is_named_and_its_value_not_quoted(
    monkeypatch: pytest.MonkeyPatch, variable: str, field: str
) -> None:
    monkeypatch.setenv(variable, SECRET)

    with pytest.raises(ValidationError) as refused:
        load_settings()

    assert field in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_wrong_argument_is_named_and_its_value_not_quoted() -> None:
    with pytest.raises(ValidationError) as refused:
        load_settings({"neo4j": {"passwd": SECRET}})

    assert "neo4j.passwd" in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("variable", ["TRIVIUM_POSTGRES", "TRIVIUM_POSTGRES__DNS"])
def test_the_command_says_so_without_a_traceback(variable: str) -> None:
    ended = CliRunner().invoke(main, ["check-config"], env={variable: SECRET})

    assert ended.exit_code == EXIT_MISCONFIGURED
    assert "the settings are wrong" in ended.stderr
    assert "postgres" in ended.stderr
    assert SECRET not in ended.output
