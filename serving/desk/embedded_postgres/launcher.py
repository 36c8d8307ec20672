"""Starting and stopping the server.

A start takes the lock, creates the cluster if there is none, attaches to a running server or starts
one, and waits until it accepts connections. Every user of the server holds a shared lock, which the
kernel releases when the process dies; the last user to stop stops the server. A guard process
ends it when its users were killed (`postmaster.py`).
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from psycopg.conninfo import make_conninfo

from serving.desk.embedded_postgres import postmaster as postmasters
from serving.desk.embedded_postgres.postmaster import (
    SHORT_SOCKET_PREFIX,
    SOCKET_NAME,
    Postmaster,
    ProcessTable,
    remove_if_short,
    try_exclusive_lock,
    wait_until,
)
from serving.desk.embedded_postgres.programs import (
    ACCOUNT,
    ENVIRONMENT,
    Account,
    PostgresStartError,
    find_binaries,
    major_version_of,
    reachable_binaries,
    reason_of,
)

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "port": "5432",  # part of the socket's file name
    "max_connections": "60",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "wal_recycle": "off",  # a recycled file keeps erased rows until it is written over
    "checkpoint_timeout": "15min",
    "wal_compression": "on",
    "random_page_cost": "1.1",
    "jit": "off",
    "autovacuum_naptime": "15s",  # also the delay until the words of a bulk load have statistics
    "log_error_verbosity": "terse",  # DETAIL lines may quote rows
    "log_min_messages": "warning",
}

LONGEST_SOCKET_PATH = 107
"""The bytes of `sockaddr_un.sun_path` on Linux, without the NUL."""

logger = logging.getLogger(__name__)

START_WITHIN_S = 120.0
"""The time limit of creating the cluster, and of starting the server, crash recovery included."""

_children: list[subprocess.Popen[bytes]] = []
"""The servers that this process started; other users may keep them running."""


class EmbeddedPostgres:
    """One PostgreSQL below `root`: `pgdata`, `postgres.log`, its socket and its locks.

    As a context manager it yields the DSN. The account that runs the server owns `root`, and must
    be able to enter every parent directory. `binaries` is the directory of `postgres` and `initdb`,
    which is searched for if it is not given; `settings` are in addition to `SETTINGS`.
    """

    def __init__(
        self, root: Path, *, binaries: Path | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self.root = root.resolve()
        self.data = self.root / "pgdata"
        self.log = self.root / "postgres.log"
        self._binaries = binaries
        self._settings = {**SETTINGS, **(settings or {})}
        self._account = Account.of_server()
        self._processes = ProcessTable(self.data)
        self._in_use: IO[bytes] | None = None
        self._socket_directory: Path | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Starts the server, or attaches to a running one, and returns its DSN.

        Raises:
            PostgresStartError: The server cannot be created or started.
        """
        if self._in_use is not None:
            raise PostgresStartError(f"this handle on {self.root} is already started")
        self._make_root()
        with self._starting_or_stopping():
            postmaster = self._found_or_started()
            self._in_use = (self.root / "users").open("ab")
            fcntl.flock(self._in_use, fcntl.LOCK_SH)
            self._guard_server(postmaster.pid)
        self._socket_directory = postmaster.socket_directory
        host = str(self._socket_directory)
        return make_conninfo(host=host, port=5432, user="postgres", dbname="postgres")

    def restart_if_dead(self) -> None:
        """Starts the server again, at its address, if this handle uses it and it has ended.

        Raises:
            PostgresStartError: It did not start; the next call tries again.
        """
        if self._in_use is None:
            return
        with self._starting_or_stopping():
            if self._processes.find() is None:
                logger.error("postgresql ended", extra={"log": str(self.log)})
                self._guard_server(self._found_or_started().pid)

    def stop(self) -> None:
        """Detaches from the server, and stops it unless others use it. Idempotent."""
        if self._in_use is not None:
            with self._starting_or_stopping():
                # First: it would take the lock when this process gives up its own.
                self._end_guard()
                if try_exclusive_lock(self._in_use) and (pid := self._processes.find()) is not None:
                    postmaster = self._processes.ready(pid)
                    self._processes.end(pid, lambda: self._has_ended(pid))
                    if postmaster is not None:
                        remove_if_short(postmaster.socket_directory)
                self._in_use.close()
                self._in_use = self._socket_directory = None
        _reap()

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @contextlib.contextmanager
    def _starting_or_stopping(self) -> Iterator[None]:
        with (self.root / "lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _found_or_started(self) -> Postmaster:
        found = self._binaries or find_binaries()
        version = major_version_of(found)
        copy = self.root / f"binaries-{version}"
        binaries = reachable_binaries(found, self._account, copy)
        self._make_cluster(binaries)
        self._check_major_version(binaries, version)
        running = self._processes.find()
        if running is not None:
            return self._wait_until_ready(running)
        return self._start_server(binaries)

    def _make_root(self) -> None:
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._account.own(self.root)
        except OSError as error:
            raise PostgresStartError(
                f"{self.root} cannot be created ({reason_of(error)})"
            ) from error
        if not self._account.can("-w", self.root):
            raise PostgresStartError(
                f"the account {ACCOUNT!r}, which runs PostgreSQL for root, cannot enter "
                f"{self.root}: choose a directory outside of private homes"
                if self._account.ids
                else f"{self.root} cannot be written"
            )

    def _make_cluster(self, binaries: Path) -> None:
        """Runs initdb in a temporary directory and renames it, so no unfinished cluster is used."""
        if (self.data / "PG_VERSION").exists():
            return
        unfinished = self.root / "pgdata.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        command = [
            str(binaries / "initdb"),
            f"--pgdata={unfinished}",
            "--username=postgres",
            "--auth=trust",  # only the owner and root can enter the socket's directory
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--data-checksums",
        ]
        try:
            with self.log.open("ab") as log:
                subprocess.run(
                    command, check=True, timeout=START_WITHIN_S, **self._surroundings(log)
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise PostgresStartError(
                f"initdb could not create {unfinished} ({reason_of(error)}); see {self.log}"
            ) from error
        unfinished.rename(self.data)

    def _check_major_version(self, binaries: Path, version: int) -> None:
        made_by = int((self.data / "PG_VERSION").read_text())
        if made_by != version:
            raise PostgresStartError(
                f"{self.data} was created by PostgreSQL {made_by}, but {binaries} is PostgreSQL "
                f"{version}: dump it with the former and restore it with the latter, or use "
                "another directory"
            )

    def _start_server(self, binaries: Path) -> Postmaster:
        if not wait_until(lambda: not self._processes.servers(), START_WITHIN_S):
            raise PostgresStartError(
                f"processes {self._processes.servers()} of an earlier PostgreSQL still use "
                f"{self.data}"
            )
        socket_directory = self._make_socket_directory()
        command = [str(binaries / "postgres"), "-D", str(self.data), "-k", str(socket_directory)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        try:
            with self.log.open("ab") as log:
                child = subprocess.Popen(command, **self._surroundings(log))
        except OSError as error:
            remove_if_short(socket_directory)
            raise PostgresStartError(f"cannot run {command[0]} ({reason_of(error)})") from error
        _children.append(child)
        try:
            return self._wait_until_ready(child.pid)
        except PostgresStartError as error:
            # A server still in recovery keeps running, and the next start attaches to it.
            if not self._has_ended(child.pid):
                raise
            remove_if_short(socket_directory)
            raise PostgresStartError(f"{error}; its exit status is {child.returncode}") from None

    def _make_socket_directory(self) -> Path:
        """Creates the directory below the root, or elsewhere if its path would be too long.

        A restart uses that of the first start, which is part of the address.
        """
        directory = self._socket_directory or self.root / "run"
        if len(os.fsencode(directory / SOCKET_NAME)) > LONGEST_SOCKET_PATH:
            directory = Path(tempfile.mkdtemp(prefix=SHORT_SOCKET_PREFIX))
        directory.mkdir(mode=0o700, exist_ok=True)
        self._account.own(directory)
        return directory

    def _surroundings(self, log: IO[bytes]) -> dict[str, Any]:
        """The arguments of one of PostgreSQL's programs: its account, and its output to the log.

        In its own session, so that Ctrl-C reaches only this process, which then stops the server.
        """
        return {
            "stdin": subprocess.DEVNULL,
            "stdout": log,
            "stderr": log,
            "env": ENVIRONMENT,
            "cwd": self.root,
            "start_new_session": True,
            **self._account.credentials(),
        }

    def _wait_until_ready(self, pid: int) -> Postmaster:
        def settled() -> bool:
            return self._processes.ready(pid) is not None or self._has_ended(pid)

        in_time = wait_until(settled, START_WITHIN_S)
        postmaster = self._processes.ready(pid)
        if postmaster is not None:
            return postmaster
        if in_time:
            raise PostgresStartError(
                f"PostgreSQL ended while starting{self._last_fatal_line()}; see {self.log}"
            )
        raise PostgresStartError(
            f"PostgreSQL was not ready after {START_WITHIN_S:g} s, possibly still recovering "
            f"(pid {pid}); see {self.log}"
        )

    def _has_ended(self, pid: int) -> bool:
        """Whether the server has ended; reaps it if it is a child of this process."""
        _reap()
        return not self._processes.is_server(pid) and all(child.pid != pid for child in _children)

    def _guard_server(self, pid: int) -> None:
        """Starts a process that ends the server if this one is killed, and no other uses it."""
        self._end_guard()
        try:
            self._guard = subprocess.Popen(
                [sys.executable, "-P", "-S", "-E", postmasters.__file__, str(self.root), str(pid)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            # The next start finds the server, should this process be killed.
            logger.warning("postgresql has no guard", extra={"reason": reason_of(error)})

    def _end_guard(self) -> None:
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            self._guard = None

    def _last_fatal_line(self) -> str:
        with contextlib.suppress(OSError):
            for line in reversed(self.log.read_text(errors="replace").splitlines()):
                if "FATAL:" in line or "PANIC:" in line:
                    return f" ({line.partition(':  ')[2]})"
        return ""


def _reap() -> None:
    """Collects the exit codes of servers that have ended."""
    _children[:] = [child for child in _children if child.poll() is None]
