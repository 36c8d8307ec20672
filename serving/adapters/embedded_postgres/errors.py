"""What goes wrong with a server of one's own."""

from __future__ import annotations

import subprocess


class PostgresStartError(Exception):
    """The server could not be made or started; says what failed and where its log is."""


def reason_of(error: Exception) -> str:
    """Why a program did not run or did not succeed, in a few words."""
    match error:
        case subprocess.TimeoutExpired():
            return f"no end after {error.timeout:g} s"
        case subprocess.CalledProcessError():
            return f"exit code {error.returncode}"
        case OSError():
            return error.strerror or type(error).__name__
        case _:
            return type(error).__name__
