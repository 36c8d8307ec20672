"""What is said of settings that are wrong."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.parametrize("backend", ["onnx", "bfloat16"])
def test_a_precision_that_a_backend_has_not_is_refused(backend: str) -> None:
    with pytest.raises(ValidationError, match=f"{backend} has a precision of its own"):
        load_settings({"embedder": {"backend": backend, "precision": "float16"}})


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "extends: default\nlegs: {dense: {depth: -1}}\n",
            r"mine.yaml): legs.dense.depth: must be",
        ),
        ("extends: [default]\n", "mine.yaml): extends: no profile is called ['default']"),
        ("a: [", "mine.yaml is not YAML"),
    ],
)
@pytest.mark.parametrize("command", ["check-config", "doctor"])
def test_a_profile_that_is_wrong_is_told_with_its_file(
    tmp_path: Path, command: str, text: str, said: str
) -> None:
    (tmp_path / "mine.yaml").write_text(text)

    ended = CliRunner().invoke(main, [command], env={"TRIVIUM_RETRIEVAL__PROFILES": str(tmp_path)})

    assert ended.exit_code == EXIT_MISCONFIGURED
    assert said in ended.stderr
    assert "TRIVIUM_RETRIEVAL__PROFILES" in ended.stderr


def test_a_folder_of_profiles_that_is_not_there_is_told(tmp_path: Path) -> None:
    folder = str(tmp_path / "nowhere")

    ended = CliRunner().invoke(main, ["doctor"], env={"TRIVIUM_RETRIEVAL__PROFILES": folder})

    assert ended.exit_code == EXIT_MISCONFIGURED
    assert folder in ended.stderr


def test_the_model_before_is_not_asked_for_an_attention_that_only_the_new_one_may_have() -> None:
    previous = {"model": "minilm"}
    settings = load_settings(
        {"embedder": {"model": "q", "attention": "varlen", "previous": previous}}
    )

    assert settings.embedder.previous is not None
    assert settings.embedder.previous.overrides()["attention"] == "padded"
