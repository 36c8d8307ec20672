"""Starts and stops the Neo4j process.

Maven Central has no server archive of Neo4j Community, but its jars. They are licensed under
GPL-3.0 and run in their own process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from serving.adapters.maven_jars import LockedJar, download_by_jgo, fetch_jars
from serving.desk.embedded_neo4j.watch import ErrorWatch
from serving.domain.errors import DependencyError

VERSION = "5.26.30"
"""A long-term support release; its jars are in `jars.lock`, by `tests/support/neo4j_jars.py`."""

STOP_WITHIN_S = 30.0
LOCK_PATH = Path(__file__).with_name("jars.lock")
SERVER_PATH = Path(__file__).with_name("server.py")

OnProgress = Callable[[str], None]

logger = logging.getLogger(__name__)


def locked_jars() -> list[LockedJar]:
    """Every jar of the class path."""
    return [LockedJar.parse(line) for line in LOCK_PATH.read_text(encoding="ascii").splitlines()]


def jar_directory(cache: Path, on_progress: OnProgress) -> Path:
    """The directory in `cache` with every jar; downloads the missing ones.

    Raises `DependencyError` if one cannot be downloaded or has another checksum.
    """
    directory = cache / f"neo4j-{VERSION}"
    jars = locked_jars()

    def report(done: int) -> None:
        on_progress(f"downloading Neo4j {VERSION}: {done} of {len(jars)} jars")

    fetch_jars("graph", jars, directory, report, download_by_jgo)
    return directory


def configuration(port: int) -> dict[str, str]:
    """The settings of a small Neo4j without authentication, which therefore listens on loopback."""
    return {
        "server.bolt.enabled": "true",
        "server.bolt.listen_address": f"127.0.0.1:{port}",
        "server.bolt.thread_pool_min_size": "2",
        "server.bolt.thread_pool_max_size": "64",
        # A shutdown waits for this twice (5 s each by default) after all data is safe.
        "internal.server.bolt.thread_pool_shutdown_wait_time": "0s",
        "server.http.enabled": "false",
        "server.https.enabled": "false",
        "dbms.security.auth_enabled": "false",
        "dbms.usage_report.enabled": "false",
        # Statements contain the words of questions.
        "db.logs.query.enabled": "OFF",
        "server.memory.pagecache.size": "64m",
        # By default each of the two databases preallocates 256 MB of log and retains 2 GB.
        "db.tx_log.preallocate": "false",
        "db.tx_log.rotation.size": "16m",
        "db.tx_log.rotation.retention_policy": "keep_none",
    }


class EmbeddedNeo4j:
    """Neo4j Community in a child process; the data in `root` survives it, also after a crash.

    Uses about 540 MB of memory at the default heap and starts in 5 s, without downloads. The child
    ends with `stop`, and when this process ends, even by SIGKILL. As a context manager it yields
    the Bolt address. The jars (140 MB) in `cache` are shared by all roots of the user.
    """

    def __init__(
        self,
        root: Path,
        cache: Path,
        *,
        heap_mb: int = 512,
        timeout_s: float = 180.0,
        on_progress: OnProgress = lambda _: None,
    ) -> None:
        self._root = root
        self._cache = cache
        self._port = 0
        """Bolt's port on 127.0.0.1: at first a free one, which a restart reuses."""
        self._heap_mb = heap_mb
        self._timeout_s = timeout_s
        self._on_progress = on_progress
        self._process: subprocess.Popen[bytes] | None = None
        self._is_wanted = False
        self._watch = ErrorWatch()

    @property
    def log_path(self) -> Path:
        """The output of the process; Neo4j's own log is `logs/debug.log` next to it."""
        return self._root / "neo4j.log"

    @property
    def pid(self) -> int | None:
        """The process id, if the process runs."""
        return self._process.pid if self._process else None

    def start(self) -> str:
        """Starts Neo4j, waits until it answers, and returns its Bolt address.

        Raises:
            DependencyError: The jars cannot be downloaded, the root cannot be written, or Neo4j
                did not start.
        """
        self._is_wanted = True
        try:
            jars = jar_directory(self._cache, self._on_progress)
            self._root.mkdir(parents=True, exist_ok=True)
            self._root.chmod(0o700)
            lines = [f"{name}={value}\n" for name, value in configuration(self._port).items()]
            (self._root / "neo4j.conf").write_text("".join(lines), encoding="ascii")
            self._on_progress("starting Neo4j")
            self._process = self._spawn(jars)
        except OSError as error:
            why = f"{error.filename or self._root} cannot be used ({error.strerror})"
            raise DependencyError("graph", f"Neo4j could not be started: {why}") from error
        try:
            self._port = self._wait_for_port(self._process)
        except BaseException:
            self._kill()
            raise
        _running(self._root).write_text(f"{self.pid} {self._port}\n", encoding="ascii")
        logger.info("neo4j started", extra={"pid": self.pid, "port": self._port})
        return f"bolt://127.0.0.1:{self._port}"

    def stop(self) -> None:
        """Ends Neo4j after a checkpoint and waits for it; does nothing if it does not run."""
        self._is_wanted = False
        self._end()

    def restart_if_dead(self) -> None:
        """Starts Neo4j again if it was started and has ended by itself, such as out of memory.

        Also if it has answered nothing but errors for a while, as after a full disk.

        Raises:
            DependencyError: It did not start; the next call tries again.
        """
        if self._process is not None:
            if (status := self._process.poll()) is not None:
                why = f"ended with status {status}"
            elif error := self._watch.lasting_error(f"bolt://127.0.0.1:{self._port}"):
                why = f"answers {error} alone, is the disk full? It is started again"
            else:
                return
            logger.error("neo4j failed", extra={"why": why, "log": str(self.log_path)})
            self._on_progress(f"Neo4j {why}; its log is {self.log_path}")
            self._end()
        if self._is_wanted:
            self.start()

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _spawn(self, jars: Path) -> subprocess.Popen[bytes]:
        command = [str(SERVER_PATH), str(self._root.absolute()), str(jars), str(self._heap_mb)]
        with self.log_path.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-P", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C must not reach the child, which ends with its standard input.
                start_new_session=True,
            )

    def _wait_for_port(self, process: subprocess.Popen[bytes]) -> int:
        assert process.stdout is not None, "standard output is not piped; this is a bug"
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(self._timeout_s):
                raise self._failure(f"did not start within {self._timeout_s:g} s")
        line = process.stdout.readline()
        if not line:
            raise self._failure(f"ended with status {process.wait()} while starting")
        return int(line)

    def _failure(self, what: str) -> DependencyError:
        return DependencyError("graph", f"Neo4j {what}; its log is {self.log_path}")

    def _end(self) -> None:
        if self._process is None:
            return
        _close(self._process.stdin)
        try:
            self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            logger.warning("neo4j did not stop, killing it", extra={"pid": self.pid})
        self._kill()

    def _kill(self) -> None:
        """Kills the process in whatever state it is, and closes its pipes."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        _close(self._process.stdin)
        _close(self._process.stdout)
        self._process = None


def running_address(root: Path) -> str | None:
    """The Bolt address of the Neo4j that runs on `root`, whoever started it; None without one."""
    try:
        pid, port = _running(root).read_text(encoding="ascii").split()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    # The pid may be that of another process by now.
    is_ours = os.fsencode(SERVER_PATH) in command and os.fsencode(root.absolute()) in command
    return f"bolt://127.0.0.1:{port}" if is_ours else None


def _running(root: Path) -> Path:
    """The file with the pid and the port of the process that was started last."""
    return root / "running"


def _close(pipe: IO[bytes] | None) -> None:
    """Closes a pipe whose other end may be gone."""
    if pipe is not None:
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
