"""Starting processes, and looking at those that may end while they are looked at."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil


def inherited_environment() -> dict[str, str]:
    """The environment for a service that a test starts, without what is set for the tests alone."""
    inherited = dict(os.environ)  # noqa: TID251 - a child process inherits it
    inherited.pop("GRPC_ENABLE_FORK_SUPPORT", None)
    return inherited


@contextlib.contextmanager
def python_child(code: str, *arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A program that prints a line and goes on, and that line; it is killed at the end."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


def tree_of(pid: int) -> list[psutil.Process]:
    """A process and all that came of it; nothing if it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def command_lines(pid: int) -> list[str]:
    """Those of a process and all that came of it."""
    lines = []
    for process in tree_of(pid):
        with contextlib.suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return lines


def is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def mentioning(folder: Path) -> list[psutil.Process]:
    """The processes that have a folder in their command line or environment, whatever their parent.

    A PostgreSQL that its starter has left behind is nobody's child.
    """
    return [each for each in psutil.process_iter() if is_alive(each) and _mentions(each, folder)]


def _mentions(process: psutil.Process, folder: Path) -> bool:
    with contextlib.suppress(psutil.Error):
        texts = (*process.cmdline(), *process.environ().values())
        return any(str(folder) in text for text in texts)
    return False


def listeners(process: psutil.Process) -> list[tuple[tuple[str, ...], Any]]:
    """The beginning of the process' command line with each address that it listens on."""
    with contextlib.suppress(psutil.NoSuchProcess):
        command = tuple(process.cmdline()[:4])
        return [
            (command, connection.laddr)
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
    return []
