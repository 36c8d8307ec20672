"""The temporary folder of a desk, and what one that was killed leaves: it, and processes of Ray."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from serving.desk.ray_environment import (
    LONGEST_TEMP_DIR,
    RAY_FOLDER,
    TEMP_DIR_PREFIX,
    TEMPORARY_FILES,
)

LOCK = "lock"
"""A file in the folder of a desk, which the kernel unlocks when the desk has ended."""
GONE_TIMEOUT_S = 5.0
REMOVALS = 3
"""Attempts to remove a folder in which a process still writes."""
TITLE_OF_RAY = "ray::"


@contextlib.contextmanager
def new_temp_dir() -> Iterator[Path]:
    """Creates a temporary folder with a short path, in the default location or in /tmp.

    Ray makes its folder writable for every account, so it is inside one that only the owner can
    enter. The next start removes what cannot be removed at the end.
    """
    usual = tempfile.gettempdir()
    random_part = 8
    longest = LONGEST_TEMP_DIR - len(f"/{TEMP_DIR_PREFIX}/{RAY_FOLDER}") - random_part
    parent = usual if len(os.fsencode(usual)) <= longest else "/tmp"
    private = Path(tempfile.mkdtemp(prefix=TEMP_DIR_PREFIX, dir=parent))
    try:
        with in_use(private):
            folder = private / RAY_FOLDER
            folder.mkdir()
            yield folder
    finally:
        _remove(private)


@contextlib.contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Marks a folder as that of a desk that lives."""
    unlocked = folder / f"{LOCK}.new"
    with unlocked.open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unlocked.rename(folder / LOCK)
        yield


def clear_dead_desks(report: Callable[[str], None]) -> None:
    """Ends the processes and removes the folders of this account's desks that were killed.

    The processes would keep the ports of the next desk.
    """
    for parent in {Path(tempfile.gettempdir()), Path("/tmp")}:
        for folder in parent.glob(f"{TEMP_DIR_PREFIX}*"):
            with _taken_over(folder) as is_ours:
                if not is_ours:
                    continue
                left = left_by_ray(folder / RAY_FOLDER)
                report(f"a desk was killed: removing {folder}, and {len(left)} of its processes")
                kill_all(left)
                _remove(folder)


def _remove(folder: Path) -> None:
    """Removes the folder of a desk that has ended, its lock last: without one it would stay."""
    of_ray = folder / RAY_FOLDER
    for _ in range(REMOVALS):
        shutil.rmtree(of_ray, ignore_errors=True)
        if not of_ray.exists():
            shutil.rmtree(folder, ignore_errors=True)
            return
        kill_all(left_by_ray(of_ray))


@contextlib.contextmanager
def _taken_over(folder: Path) -> Iterator[bool]:
    """Locks the folder of a desk that has ended; False if it is none, or another's."""
    with contextlib.ExitStack() as stack:
        try:
            is_ours = folder.lstat().st_uid == os.geteuid()
            lock = stack.enter_context((folder / LOCK).open("r+b"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            is_ours = False
        yield is_ours


def left_by_ray(temp_dir: Path) -> list[psutil.Process]:
    """Processes that Ray's processes left: those that have the temporary folder, or its logs, open.

    Without a raylet they are nobody's children. The children of this process are Ray's own
    processes, which have ended, and the stores.
    """
    ours = {psutil.Process(), *psutil.Process().children()}
    return [each for each in psutil.process_iter() if each not in ours and _uses(each, temp_dir)]


def _uses(process: psutil.Process, temp_dir: Path) -> bool:
    with contextlib.suppress(psutil.Error):
        if process.environ().get(TEMPORARY_FILES) == str(temp_dir):
            return True
        # A title, such as that of an agent or a replica, overwrites the environment.
        if "".join(process.cmdline()[:1]).startswith(TITLE_OF_RAY):
            files = (Path(file.path) for file in process.open_files())
            return any(file.is_relative_to(temp_dir.resolve()) for file in files)
    return False


def end_all(processes: list[psutil.Process]) -> None:
    """Waits until processes have ended, and kills those that take too long."""
    _, left = psutil.wait_procs(processes, timeout=GONE_TIMEOUT_S)
    kill_all(left)


def kill_all(processes: list[psutil.Process]) -> None:
    """Kills processes, and waits until they have ended."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=GONE_TIMEOUT_S)
