"""Error messages for invalid settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pydantic import ValidationError

from serving.__main__ import EXIT_MISCONFIGURED, main
from serving.config.settings import load_settings

SECRET = "hunter2"
DSN = "TRIVIUM_POSTGRES__DSN"
PROFILES = "TRIVIUM_RETRIEVAL__PROFILES"


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


def run(command: str, variable: str, value: str | Path) -> Result:
    return CliRunner().invoke(main, [command], env={variable: str(value)})


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("TRIVIUM_POSTGRES", SECRET, "invalid settings"),
        ("TRIVIUM_POSTGRES__DNS", SECRET, "postgres.dns"),
        (DSN, f"host=127.0.0.1 password=two {SECRET}", f"postgres.dsn does not parse ({DSN})"),
        ("TRIVIUM_TLS__CERTIFICATE", SECRET, "there is no setting TRIVIUM_TLS__CERTIFICATE"),
    ],
)
@pytest.mark.parametrize("command", ["check-config", "serve"])
def test_the_command_reports_it_without_the_value(
    command: str, variable: str, value: str, said: str
) -> None:
    ended = run(command, variable, value)

    assert ended.exit_code == EXIT_MISCONFIGURED
    assert said in ended.stderr
    assert SECRET not in ended.output


def test_check_config_masks_secrets() -> None:
    printed = run("check-config", DSN, f"host=/ password={SECRET}")

    assert printed.exit_code == 0
    assert "dsn: '**********'" in printed.stdout
    assert SECRET not in printed.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("extends: default\nlegs: {dense: {depth: -1}}", "mine.yaml): legs.dense.depth: must be"),
        ("extends: [default]", "mine.yaml): extends: no profile is called ['default']"),
        ("a: [", "mine.yaml is not valid YAML"),
    ],
)
@pytest.mark.parametrize("command", ["check-config", "doctor", "serve"])
def test_an_invalid_profile_is_reported_with_its_file(
    tmp_path: Path, command: str, text: str, said: str
) -> None:
    (tmp_path / "mine.yaml").write_text(text)

    ended = run(command, PROFILES, tmp_path)

    assert ended.exit_code == EXIT_MISCONFIGURED
    assert said in ended.stderr
    assert PROFILES in ended.stderr


def test_profile_faults_are_on_separate_lines(tmp_path: Path) -> None:
    faulty = "extends: default\nlegs: {dense: {depth: -1, weight: -1}}\n"
    (tmp_path / "mine.yaml").write_text(faulty)
    (tmp_path / "yours.yaml").write_text("extends: nobody\n")

    lines = run("check-config", PROFILES, tmp_path).stderr.splitlines()

    assert [line.split(":")[0] for line in lines[1:]] == [
        f"  profile 'mine' (file {tmp_path}/mine.yaml)",
        f"  profile 'yours' (file {tmp_path}/yours.yaml)",
    ]


def test_check_config_names_the_profiles_that_it_read(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("extends: default\n")

    printed = run("check-config", PROFILES, tmp_path).stdout

    assert f"# profile mine: {tmp_path}/mine.yaml" in printed.splitlines()
    assert "# profile annie: " in printed


def test_a_missing_folder_of_profiles_is_reported(tmp_path: Path) -> None:
    ended = run("doctor", PROFILES, tmp_path / "nowhere")

    assert ended.exit_code == EXIT_MISCONFIGURED
    assert str(tmp_path / "nowhere") in ended.stderr


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
