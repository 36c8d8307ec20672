"""Error messages for invalid settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from serving.__main__ import EXIT_MISCONFIGURED, main
from serving.config.settings import load_settings

SECRET = "hunter2"
DSN = "TRIVIUM_POSTGRES__DSN"


@pytest.mark.parametrize(
    ("variable", "field"),
    [
        ("TRIVIUM_POSTGRES__DNS", "postgres.dns"),
        ("TRIVIUM_NEO4J__PASSWD", "neo4j.passwd"),
        ("TRIVIUM_SERVE__GRPC_PORT", "serve.grpc_port"),
    ],
)
def test_wrong_setting_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch, variable: str, field: str
) -> None:
    monkeypatch.setenv(variable, SECRET)

    with pytest.raises(ValidationError) as refused:
        load_settings()

    assert field in str(refused.value)
    assert SECRET not in str(refused.value)


def test_wrong_argument_is_named_without_its_value() -> None:
    with pytest.raises(ValidationError) as refused:
        load_settings({"neo4j": {"passwd": SECRET}})

    assert "neo4j.passwd" in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("variable", ["TRIVIUM_POSTGRES", "TRIVIUM_POSTGRES__DNS"])
def test_the_command_reports_it_without_a_traceback(variable: str) -> None:
    ended = CliRunner().invoke(main, ["check-config"], env={variable: SECRET})

    assert ended.exit_code == EXIT_MISCONFIGURED
    assert "invalid settings" in ended.stderr
    assert "postgres" in ended.stderr
    assert SECRET not in ended.output


@pytest.mark.parametrize("command", ["check-config", "serve"])
def test_malformed_dsn_is_named_and_not_shown(command: str) -> None:
    ended = CliRunner().invoke(main, [command], env={DSN: "host=127.0.0.1 password=two words"})

    assert ended.exit_code == EXIT_MISCONFIGURED
    assert f"postgres.dsn does not parse ({DSN})" in ended.stderr
    assert "words" not in ended.output


def test_check_config_masks_secrets() -> None:
    printed = CliRunner().invoke(main, ["check-config"], env={DSN: f"host=/ password={SECRET}"})

    assert printed.exit_code == 0
    assert "dsn: '**********'" in printed.stdout
    assert SECRET not in printed.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "extends: default\nlegs: {dense: {depth: -1}}\n",
            r"mine.yaml): legs.dense.depth: must be",
        ),
        ("extends: [default]\n", "mine.yaml): extends: no profile is called ['default']"),
        ("a: [", "mine.yaml is not valid YAML"),
    ],
)
@pytest.mark.parametrize("command", ["check-config", "doctor", "serve"])
def test_an_invalid_profile_is_reported_with_its_file(
    tmp_path: Path, command: str, text: str, said: str
) -> None:
    (tmp_path / "mine.yaml").write_text(text)

    ended = CliRunner().invoke(main, [command], env={"TRIVIUM_RETRIEVAL__PROFILES": str(tmp_path)})

    assert ended.exit_code == EXIT_MISCONFIGURED
    assert said in ended.stderr
    assert "TRIVIUM_RETRIEVAL__PROFILES" in ended.stderr


def test_variable_of_an_unknown_section_is_rejected() -> None:
    ended = CliRunner().invoke(main, ["check-config"], env={"TRIVIUM_TLS__CERTIFICATE": "/c"})

    assert ended.exit_code == EXIT_MISCONFIGURED
    assert "there is no setting TRIVIUM_TLS__CERTIFICATE" in ended.stderr


def test_profile_faults_are_on_separate_lines(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "extends: default\nlegs: {dense: {depth: -1, weight: -1}}\n"
    )
    (tmp_path / "yours.yaml").write_text("extends: nobody\n")

    ended = CliRunner().invoke(
        main, ["check-config"], env={"TRIVIUM_RETRIEVAL__PROFILES": str(tmp_path)}
    )

    lines = ended.stderr.splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == [
        f"  profile 'mine' (file {tmp_path}/mine.yaml)",
        f"  profile 'yours' (file {tmp_path}/yours.yaml)",
    ]


def test_check_config_names_the_profiles_that_it_read(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("extends: default\n")

    ended = CliRunner().invoke(
        main, ["check-config"], env={"TRIVIUM_RETRIEVAL__PROFILES": str(tmp_path)}
    )

    assert f"# profile mine: {tmp_path}/mine.yaml" in ended.stdout.splitlines()
    assert "# profile annie: " in ended.stdout


def test_a_missing_folder_of_profiles_is_reported(tmp_path: Path) -> None:
    folder = str(tmp_path / "nowhere")

    ended = CliRunner().invoke(main, ["doctor"], env={"TRIVIUM_RETRIEVAL__PROFILES": folder})

    assert ended.exit_code == EXIT_MISCONFIGURED
    assert folder in ended.stderr


API = {"url": "http://127.0.0.1:11434/v1"}


@pytest.mark.parametrize(
    ("embedder", "said"),
    [
        ({}, "dimension must be set"),
        ({"dimension": 768, "device": "cuda"}, "device says how a model runs here"),
        ({"dimension": 768, "precision": "float32"}, "precision says how a model runs here"),
        ({"dimension": 768, "api": {"url": "localhost:11434"}}, "https?://"),
    ],
)
def test_a_model_runs_here_or_behind_an_api(embedder: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        load_settings({"embedder": {"model": "m", "api": API, **embedder}})


def test_api_key_comes_from_environment_or_file_unshown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {"embedder": {"model": "m", "dimension": 768, "api": API}}
    without = load_settings(given).embedder.api
    monkeypatch.setenv("TRIVIUM_EMBEDDER__API__KEY", SECRET)
    by_environment = load_settings(given)
    monkeypatch.delenv("TRIVIUM_EMBEDDER__API__KEY")
    (tmp_path / "key").write_text(f"{SECRET}\n")
    monkeypatch.setenv("TRIVIUM_EMBEDDER__API__KEY_FILE", str(tmp_path / "key"))
    by_file = load_settings(given)

    assert without is not None
    assert without.secret() is None
    for settings in (by_environment, by_file):
        assert settings.embedder.api is not None
        assert settings.embedder.api.secret() == SECRET
        assert SECRET not in repr(settings)


def test_an_empty_variable_sets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = load_settings()
    monkeypatch.setenv("TRIVIUM_CACHE_DIR", "")
    monkeypatch.setenv("TRIVIUM_SERVE__GRPC_PORT", "")

    assert load_settings() == usual
