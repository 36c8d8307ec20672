"""Ends a server when nobody uses it any more, however its users ended.

`launcher.py` starts it as a script for each server, so it imports nothing of this service. A
user has a shared lock on the file `users`, which the kernel releases when it is killed. A signal
from the kernel (PR_SET_PDEATHSIG) would end the server under other users, and with the thread that
started it.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from pathlib import Path

POLL_S = 0.05
ENDS_WITHIN_S = 60.0


def wait_until_unused(root: Path, pid: int) -> None:
    """Waits until nobody uses the server, and ends it, while none starts or stops one."""
    with (root / "users").open("ab") as users, (root / "lock").open("ab") as lock:
        while True:
            fcntl.flock(users, fcntl.LOCK_EX)
            # Who starts has the other lock first.
            fcntl.flock(users, fcntl.LOCK_UN)
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                fcntl.flock(lock, fcntl.LOCK_UN)
            else:
                end(pid)
                return


def end(pid: int) -> None:
    """Ends the server, without its sessions, and waits for it."""
    give_up = time.monotonic() + ENDS_WITHIN_S
    if is_server(pid):
        os.kill(pid, signal.SIGINT)
    while is_server(pid) and time.monotonic() < give_up:
        time.sleep(POLL_S)


def is_server(pid: int) -> bool:
    """Whether the process is a PostgreSQL: the pid may be that of another one by now."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("postgres")
    except OSError:
        return False


if __name__ == "__main__":
    wait_until_unused(Path(sys.argv[1]), int(sys.argv[2]))
