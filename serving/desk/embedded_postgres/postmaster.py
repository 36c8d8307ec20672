"""The server process of a data directory: finding it, its readiness, and ending it.

`launcher.py` also starts this file as a script for each user of a server: a guard, which ends the
server when nobody uses it any more, however its users ended. So it imports nothing of this service.
A user has a shared lock on the file `users`, which the kernel releases when it is killed. A signal
from the kernel (PR_SET_PDEATHSIG) would end the server under other users, and with the thread that
started it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

SOCKET_NAME = ".s.PGSQL.5432"
SHORT_SOCKET_PREFIX = "trivium-pg-"
"""The prefix of socket directories outside the root, for roots with a long path."""

END_WITHIN_S = 60.0
"""For each of the signals that end a server."""
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A server that accepts connections: its pid and the directory of its socket."""

    pid: int
    socket_directory: Path


class ProcessTable:
    """The server processes of one data directory.

    A pid alone proves nothing, since pids are reused: a server is a process named postgres whose
    working directory is the data directory.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._pid_file = data / "postmaster.pid"

    def find(self) -> int | None:
        """The pid of the running server; removes the lock files of a dead one."""
        lines = self._pid_lines()
        if not lines or not lines[0].isdigit():
            return None
        if self.is_server(int(lines[0])):
            return int(lines[0])
        # PostgreSQL does not start while any process, even a zombie, has the pid in these files.
        self._pid_file.unlink(missing_ok=True)
        if len(lines) > 4:
            socket_directory = Path(lines[4])
            (socket_directory / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)
            remove_if_short(socket_directory)
        return None

    def ready(self, pid: int) -> Postmaster | None:
        """The server, if it accepts connections.

        Line 1 of `postmaster.pid` is the pid, line 5 the socket's directory, line 8 the status.
        """
        lines = self._pid_lines()
        if len(lines) < 8 or lines[0] != str(pid) or lines[7].strip() != "ready":
            return None
        return Postmaster(pid, Path(lines[4]))

    def is_server(self, pid: int) -> bool:
        """Whether the process is alive, and a server of this data directory or a child of one."""
        process = Path(f"/proc/{pid}")
        try:
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            name = (process / "comm").read_text().strip()
            directory = (process / "cwd").readlink()
        except OSError:
            return False
        return state not in "ZX" and name.startswith("postgres") and directory == self._data

    def end(self, pid: int, has_ended: Callable[[], bool]) -> None:
        """Ends the server: fast (ends sessions), then immediate (no checkpoint), then SIGKILL."""
        for signal_ in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            if has_ended():
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_)
            if wait_until(has_ended, END_WITHIN_S):
                return

    def servers(self) -> list[int]:
        """The server and its children, which hold its shared memory when it was killed."""
        pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
        return [pid for pid in pids if self.is_server(pid)]

    def _pid_lines(self) -> list[str]:
        try:
            return self._pid_file.read_text().splitlines()
        except FileNotFoundError:
            return []


def remove_if_short(socket_directory: Path) -> None:
    """Removes the directory if it is outside the root, for its short path."""
    if socket_directory.name.startswith(SHORT_SOCKET_PREFIX):
        shutil.rmtree(socket_directory, ignore_errors=True)


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Whether the condition came true before the timeout."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def end_with_users(root: Path, pid: int) -> None:
    """Waits until nobody uses the server, and ends it, while none starts or stops one."""
    processes = ProcessTable(root / "pgdata")
    with (root / "users").open("ab") as users, (root / "lock").open("ab") as lock:
        while True:
            fcntl.flock(users, fcntl.LOCK_EX)
            # Who starts has the other lock first.
            fcntl.flock(users, fcntl.LOCK_UN)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if try_exclusive_lock(users):
                processes.end(pid, lambda: not processes.is_server(pid))
                return
            fcntl.flock(lock, fcntl.LOCK_UN)


def try_exclusive_lock(file: IO[bytes]) -> bool:
    """Takes the file's exclusive lock without waiting; False if others share it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    end_with_users(Path(sys.argv[1]), int(sys.argv[2]))
