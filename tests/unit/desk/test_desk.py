"""Start and stop of a desk: its checks, its stores, and signals."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path

import pytest

from serving.config.settings import Settings, load_settings
from serving.desk import supervisor
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
from serving.desk.interruption import Interruption
from serving.desk.ray_environment import DeskStartError
from serving.desk.supervisor import keep_running, supervised
from serving.domain.errors import DependencyError
from tests.support.waiting import until


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
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(path.name)


def test_the_logs_of_a_failed_start_are_kept_and_named(settings: Settings, tmp_path: Path) -> None:
    ray_logs, kept = tmp_path / "session" / "logs", settings.cache_dir / "failed-desk"
    for path in (ray_logs / "raylet.out", settings.data_dir / "neo4j" / "neo4j.log"):
        log(path)

    assert fail(settings, ray_logs) == [f"logs are in {kept}"]

    assert (kept / "ray" / "raylet.out").read_text() == "raylet.out"
    assert (kept / "neo4j.log").read_text() == "neo4j.log"


def test_only_existing_logs_are_kept_and_reported(settings: Settings, tmp_path: Path) -> None:
    assert fail(settings, tmp_path / "nothing") == []

    log(settings.data_dir / "postgres" / "postgres.log")
    kept = settings.cache_dir / "failed-desk"

    assert fail(settings, tmp_path / "nothing") == [f"logs are in {kept}"]
    assert (kept / "postgres.log").read_text() == "postgres.log"


def test_unwritable_logs_do_not_hide_start_error(settings: Settings, tmp_path: Path) -> None:
    log(settings.cache_dir / "failed-desk")
    (tmp_path / "logs").mkdir()

    assert fail(settings, tmp_path / "logs") == []


class Store:
    """A store that ends as soon as it runs; it starts while there is no `error`, if it may."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.is_starting, self.may_start = threading.Event(), threading.Event()
        self.runs = False
        self.restarts = 0

    def start(self) -> str:
        self.is_starting.set()
        assert self.may_start.wait(20), "nobody lets it start"
        if self.error is not None:
            raise self.error
        self.runs = True
        return "address"

    def restart_if_dead(self) -> None:
        self.restarts += 1
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.runs = False


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store()
    yield store
    store.may_start.set()


def test_started_store_has_an_address_until_stopped(store: Store) -> None:
    store.may_start.set()

    with supervised(store, "Nothing works.", print) as address:
        assert address.result(20) == "address"
        assert store.runs

    assert not store.runs


def test_store_starting_at_shutdown_is_stopped_afterwards(store: Store) -> None:
    with contextlib.suppress(KeyError), supervised(store, "Nothing works.", print):
        store.is_starting.wait()
        # The start continues only after the block has ended.
        threading.Timer(0.1, store.may_start.set).start()
        raise KeyError("something else failed")

    assert store.may_start.is_set()
    assert not store.runs


@pytest.mark.parametrize("error", [PostgresStartError("no room"), KeyError("unexpected")])
def test_failed_first_start_is_the_address(store: Store, error: Exception) -> None:
    store.error = error
    store.may_start.set()

    with supervised(store, "Nothing works.", print) as address:
        assert address.exception(20) is error

    assert store.restarts == 0


def test_slow_store_does_not_delay_another(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "EVERY_S", 0.001)
    quick = Store()
    quick.may_start.set()

    with supervised(store, "", print), supervised(quick, "", print):
        until(lambda: quick.restarts >= 3)
        assert not store.runs
        store.may_start.set()


class Pauses:
    """Waits that return at once until a time, in seconds; the store is mended at another one."""

    def __init__(self, store: Store, ends_at: float, mended_at: float = 1e9) -> None:
        self._store, self._ends_at, self._mended_at = store, ends_at, mended_at
        self._now = 0.0
        self.attempts: list[float] = []

    def __call__(self, pause_s: float) -> bool:
        self._now += pause_s
        if self._now > self._ends_at:
            return True
        if self._now >= self._mended_at:
            self._store.error = None
        self.attempts.append(self._now)
        return False


@pytest.mark.parametrize(
    "error",
    [PostgresStartError("no memory"), DependencyError("graph", "no memory"), OSError("no memory")],
)
def test_failed_restart_is_retried_after_doubling_pauses(error: Exception) -> None:
    store, said = Store(error), list[str]()
    pauses = Pauses(store, ends_at=250)

    keep_running(store, "Nothing works.", said.append, pauses)

    assert pauses.attempts == [2, 6, 14, 30, 62, 122, 182, 242]
    assert store.restarts == len(said) == 8
    assert "no memory. Nothing works. Next attempt in 4 s" in said[0]
    assert said[-1].endswith("in 60 s")


def test_restarted_store_is_checked_as_often_again() -> None:
    store, said = Store(PostgresStartError("no memory")), list[str]()
    pauses = Pauses(store, ends_at=20, mended_at=10)

    keep_running(store, "Nothing works.", said.append, pauses)

    assert pauses.attempts == [2, 6, 14, 16, 18, 20]
    assert len(said) == 2


@pytest.fixture
def reported() -> list[str]:
    return []


@pytest.fixture
def interruption(reported: list[str]) -> Iterator[Interruption]:
    with Interruption(lambda: reported.append("noted")) as running:
        yield running


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_raises_only_where_it_is_checked(
    interruption: Interruption, reported: list[str], number: signal.Signals
) -> None:
    interruption.check()

    send(number)

    assert reported == ["noted"]
    with pytest.raises(KeyboardInterrupt):
        interruption.check()


def test_signal_after_the_block_is_only_recorded(interruption: Interruption) -> None:
    with interruption.at_once():
        pass

    send(signal.SIGTERM)
    interruption.wait()

    assert interruption.noted


def test_signal_before_the_block_keeps_it_from_running(interruption: Interruption) -> None:
    send(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), interruption.at_once():
        pytest.fail("the block was entered")


def test_signal_raises_at_once_and_the_first_alone(
    interruption: Interruption, reported: list[str]
) -> None:
    with pytest.raises(KeyboardInterrupt), interruption.at_once():
        send(signal.SIGINT)

    send(signal.SIGINT)
    send(signal.SIGTERM)

    assert reported == ["noted"]


def test_the_previous_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    with Interruption(lambda: None):
        pass

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_upkeep_during_waiting_is_not_interrupted(interruption: Interruption) -> None:
    tended: list[bool] = []

    def tend() -> None:
        if len(tended) == 2:
            send(signal.SIGTERM)
        tended.append(interruption.noted)

    interruption.wait(tend, every_s=0.001)

    assert tended == [False, False, True]
