"""The embedded Neo4j: its jars, its process, and whether it answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from serving.adapters.maven_jars import LockedJar
from serving.desk.embedded_neo4j import EmbeddedNeo4j, launcher, running_address
from serving.desk.embedded_neo4j.watch import EVERY_S, MAX_ERRORS, ErrorWatch
from serving.domain.errors import DependencyError
from tests.support.stepped_clock import SteppedClock


def jar(name: str, content: str | None = None) -> LockedJar:
    """A jar whose content is its name, or the given content."""
    digest = hashlib.sha256((content or name).encode()).hexdigest()
    return LockedJar(digest, "org.example", name, "", "1.0")


JARS = [jar(f"part{n}") for n in range(20)]


class Repository:
    """Serves jars by name; some are missing, some truncated."""

    def __init__(self, *, missing: str = "", cut_short: str = "") -> None:
        self.missing = missing
        self.cut_short = cut_short
        self.asked: list[str] = []

    def __call__(self, wanted: LockedJar, below: Path) -> Path:
        self.asked.append(wanted.artifact)
        if wanted.artifact == self.missing:
            raise ConnectionError("https://example.org is down")
        below.mkdir(parents=True, exist_ok=True)
        path = below / wanted.file_name
        path.write_text("" if wanted.artifact == self.cut_short else wanted.artifact)
        return path


Fetch = Callable[..., Path]


@pytest.fixture
def fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fetch:
    """Fetches `JARS` from a repository; returns their folder."""

    def fetch(repository: Repository, on_progress: Callable[[str], None] = lambda _: None) -> Path:
        monkeypatch.setattr(launcher, "locked_jars", lambda: JARS)
        monkeypatch.setattr(launcher, "download_by_jgo", repository)
        return launcher.jar_directory(tmp_path, on_progress)

    return fetch


def fetched(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_locked_jars_are_distinct_files_of_one_neo4j() -> None:
    jars = launcher.locked_jars()

    assert len({each.file_name for each in jars}) == len(jars) > 200
    assert {each.version for each in jars if each.artifact == "neo4j-kernel"} == {"5.26.30"}


def test_every_jar_is_fetched_once_and_reported(fetch: Fetch) -> None:
    reported: list[str] = []
    again = Repository()

    directory = fetch(Repository(), reported.append)
    fetch(again)

    assert fetched(directory) == sorted(each.file_name for each in JARS)
    assert len(reported) == 20
    assert reported[-1].endswith("20 of 20 jars")
    assert again.asked == []


def test_interrupted_download_resumes(fetch: Fetch) -> None:
    with pytest.raises(DependencyError, match=r"part7-1.0.jar cannot be downloaded \(Connection"):
        fetch(Repository(missing="part7"))
    repository = Repository()

    directory = fetch(repository)

    assert "part7" in repository.asked
    assert len(fetched(directory)) == 20
    assert len(repository.asked) < 20


@pytest.mark.parametrize("bad", [Repository(cut_short="part3"), Repository(missing="part3")])
def test_incomplete_download_is_retried_and_then_named(
    tmp_path: Path, fetch: Fetch, bad: Repository
) -> None:
    with pytest.raises(DependencyError) as raised:
        fetch(bad)

    assert bad.asked.count("part3") == 3
    assert "part3-1.0.jar" in str(raised.value)
    assert "example.org" not in str(raised.value)
    assert not (tmp_path / "neo4j-5.26.30" / "part3-1.0.jar").exists()


def test_leftovers_of_a_killed_run_are_not_used(tmp_path: Path, fetch: Fetch) -> None:
    left = tmp_path / "neo4j-5.26.30" / "staging" / "0" / "part0-1.0.jar"
    left.parent.mkdir(parents=True)
    left.write_text("par")

    directory = fetch(Repository())

    assert (directory / "part0-1.0.jar").read_text() == "part0"
    assert not left.exists()


PORT = 7687
SERVES = f"import sys; print({PORT}, flush=True); sys.stdin.buffer.read()"
ENDS = "import sys; print('out of memory', file=sys.stderr); sys.exit(3)"
STARTS_FOR_EVER = "import sys; sys.stdin.buffer.read()"


class Desk:
    """A server in a folder, whose process runs `script`, and what it reports."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "neo4j"
        self._script = folder / "server.py"
        self.reported: list[str] = []
        self.runs(SERVES)

    def runs(self, script: str) -> None:
        self._script.write_text(script)

    def server(self, timeout_s: float = 60) -> EmbeddedNeo4j:
        return EmbeddedNeo4j(
            self.root, self.root, timeout_s=timeout_s, on_progress=self.reported.append
        )


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(launcher, "SERVER_PATH", tmp_path / "server.py")
    monkeypatch.setattr(launcher, "jar_directory", lambda cache, _: cache)
    return Desk(tmp_path)


def kill(server: EmbeddedNeo4j) -> int:
    """Ends the process of a server, and returns its id."""
    assert server.pid is not None
    process = psutil.Process(server.pid)
    process.kill()
    psutil.wait_procs([process])
    return process.pid


def test_killed_neo4j_restarts_at_its_address(desk: Desk) -> None:
    server = desk.server()
    with server as address:
        server.restart_if_dead()
        first = kill(server)

        server.restart_if_dead()

        assert server.pid not in (None, first)
        assert running_address(desk.root) == address
    assert any("Neo4j ended with status" in line for line in desk.reported)
    assert "server.bolt.listen_address=127.0.0.1:7687" in (desk.root / "neo4j.conf").read_text()


def test_neo4j_that_answers_errors_is_started_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = desk.server()
    with server:
        first = server.pid
        monkeypatch.setattr(ErrorWatch, "lasting_error", lambda *_: "TransactionStartFailed")

        server.restart_if_dead()

        assert server.pid not in (None, first)
    assert any("TransactionStartFailed" in line for line in desk.reported)


def test_failed_restart_is_retried_unless_stopped(desk: Desk) -> None:
    server = desk.server()
    configuration = desk.root / "neo4j.conf"
    with server:
        kill(server)
        configuration.unlink()
        configuration.mkdir()
        with pytest.raises(DependencyError, match="Is a directory"):
            server.restart_if_dead()
        configuration.rmdir()

        server.restart_if_dead()

        assert server.pid is not None
    server.restart_if_dead()
    assert server.pid is None
    assert running_address(desk.root) is None


@pytest.mark.parametrize(
    ("script", "timeout_s", "why"),
    [
        (ENDS, 60, "Neo4j ended with status 3 while starting"),
        (STARTS_FOR_EVER, 0.01, r"Neo4j did not start within 0\.01 s"),
    ],
)
def test_failed_start_names_its_log(desk: Desk, script: str, timeout_s: float, why: str) -> None:
    desk.runs(script)
    server = desk.server(timeout_s)

    with pytest.raises(DependencyError, match=f"{why}; its log is {server.log_path}"):
        server.start()

    assert server.pid is None
    assert (server.log_path.read_text() == "out of memory\n") is (script == ENDS)


FAILED = "Neo.DatabaseError.Transaction.TransactionStartFailed"
URI = "bolt://127.0.0.1:1"


class Watched:
    """A server that answers as the test wants, and when it is started again."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.error = ""
        self.asked = 0
        self.watch = ErrorWatch(self._ask, self.clock)

    def _ask(self, uri: str) -> str:
        assert uri == URI
        self.asked += 1
        return self.error

    def started_again_at(self, checks: int) -> list[int]:
        """At which of that number of checks."""
        found = []
        for check in range(1, checks + 1):
            if self.watch.lasting_error(URI):
                found.append(check)
            self.clock.now += EVERY_S
        return found


def test_server_with_lasting_errors_starts_ever_later() -> None:
    server = Watched()
    server.error = FAILED

    assert server.started_again_at(45) == [3, 9, 21, 45]
    assert server.started_again_at(2 * MAX_ERRORS) == [MAX_ERRORS, 2 * MAX_ERRORS]


def test_an_answer_in_between_ends_the_count() -> None:
    server = Watched()
    for _ in range(4):
        server.error = FAILED
        assert server.started_again_at(2) == []
        server.error = ""
        assert server.started_again_at(1) == []


def test_server_is_asked_in_intervals() -> None:
    server = Watched()
    for _ in range(20):
        server.watch.lasting_error(URI)

    assert server.asked == 1
