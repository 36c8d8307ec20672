"""The steps of start and stop, with fake servers."""

from __future__ import annotations

import resource
from concurrent.futures import CancelledError, Future
from pathlib import Path

import pytest

from serving.config.settings import Settings, load_settings
from serving.desk.desk import (
    MIN_OPEN_FILES,
    CancellableReport,
    logs_kept_on_failure,
    require_folders,
    require_key_files,
    require_open_files,
    result_of,
)
from serving.desk.embedded_postgres import PostgresStartError
from serving.desk.ray_environment import DeskStartError


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings({"cache_dir": tmp_path / "cache", "data_dir": tmp_path / "data"})


def not_interrupted() -> None:
    """A check without a signal."""


@pytest.mark.parametrize("setting", ["data_dir", "cache_dir"])
def test_impossible_folder_is_named_with_its_setting(tmp_path: Path, setting: str) -> None:
    (tmp_path / "file").touch()
    folders = dict.fromkeys(("data_dir", "cache_dir"), tmp_path) | {setting: tmp_path / "file/x"}

    with pytest.raises(DeskStartError, match=r"file/x \(Not a dir.*TRIVIUM_" + setting.upper()):
        require_folders(load_settings(folders))


def test_too_few_open_files_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))

    with pytest.raises(DeskStartError, match=r"only 256 files.*8,300.*ulimit -Hn 8300"):
        require_open_files()


def test_limit_of_open_files_is_raised_if_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[object] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 20_000))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))

    require_open_files()

    assert raised == [(MIN_OPEN_FILES, 20_000)]


def test_waiting_for_an_address_can_be_interrupted() -> None:
    start: Future[str] = Future()

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        result_of(start, interrupted)


def test_a_long_start_goes_on_until_it_is_cancelled() -> None:
    reported: list[str] = []
    progress = CancellableReport(reported.append)
    progress("1 of 2 jars")

    progress.cancel()

    with pytest.raises(CancelledError):
        progress("2 of 2 jars")
    assert reported == ["1 of 2 jars"]


@pytest.mark.parametrize(("total", "steps"), [(216, (54, 108, 162, 216)), (2, (1, 2)), (1, (1,))])
def test_few_steps_of_a_start_are_reported(total: int, steps: tuple[int, ...]) -> None:
    reported: list[str] = []
    progress = CancellableReport(reported.append)

    for done in range(1, total + 1):
        progress(f"{done} of {total} jars")
    progress("starting Neo4j")

    assert reported == [*(f"{done} of {total} jars" for done in steps), "starting Neo4j"]


def test_failed_server_start_fails_desk_with_its_message() -> None:
    start: Future[str] = Future()
    start.set_exception(PostgresStartError("no room; see the log"))

    with pytest.raises(DeskStartError, match="no room; see the log"):
        result_of(start, not_interrupted)


@pytest.mark.parametrize("section", ["embedder", "extraction"])
def test_missing_key_file_is_named_before_any_start(section: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    api = {"url": "http://127.0.0.1:9/v1", "key_file": file}
    models = {"embedder": {"model": "m", "dimension": 8, "api": api}}
    extraction = {"extraction": {"api": {**api, "model": "m"}}}
    settings = load_settings(models if section == "embedder" else extraction)

    with pytest.raises(DeskStartError, match=f"key_file {file}: No such file"):
        require_key_files(settings)
    file.write_text("a-key\n")
    require_key_files(settings)


def fail(settings: Settings, ray_logs: Path) -> list[str]:
    """Fails a start, and returns what it reported; its error is raised whatever becomes of logs."""
    reported: list[str] = []
    with (
        pytest.raises(DeskStartError, match="the cause"),
        logs_kept_on_failure(settings, ray_logs, reported.append),
    ):
        raise DeskStartError("the cause")
    return reported


def log(path: Path) -> None:
    """A log whose text is its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(path.name)


def test_the_logs_of_a_failed_start_are_kept_and_named(settings: Settings, tmp_path: Path) -> None:
    ray_logs, kept = tmp_path / "session" / "logs", settings.cache_dir / "failed-desk"
    for path in (ray_logs / "raylet.out", settings.data_dir / "neo4j" / "neo4j.log"):
        log(path)

    assert fail(settings, ray_logs) == [f"logs are in {kept}"]

    assert (kept / "ray" / "raylet.out").read_text() == "raylet.out"
    assert (kept / "neo4j.log").read_text() == "neo4j.log"


def test_logs_of_stores_are_kept_without_rays(settings: Settings, tmp_path: Path) -> None:
    log(settings.data_dir / "postgres" / "postgres.log")
    kept = settings.cache_dir / "failed-desk"

    assert fail(settings, tmp_path / "nothing") == [f"logs are in {kept}"]

    assert (kept / "postgres.log").read_text() == "postgres.log"


def test_without_logs_nothing_is_reported_about_logs(settings: Settings, tmp_path: Path) -> None:
    assert fail(settings, tmp_path / "nothing") == []


def test_unwritable_logs_do_not_hide_start_error(settings: Settings, tmp_path: Path) -> None:
    log(settings.cache_dir / "failed-desk")
    (tmp_path / "logs").mkdir()

    assert fail(settings, tmp_path / "logs") == []
