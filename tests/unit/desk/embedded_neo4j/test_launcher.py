"""When the process of Neo4j is started again, with a script in its place."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from serving.desk.embedded_neo4j import EmbeddedNeo4j, launcher, running_address
from serving.desk.embedded_neo4j.watch import ErrorWatch
from serving.domain.errors import DependencyError

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
