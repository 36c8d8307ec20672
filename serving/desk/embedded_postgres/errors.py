"""Errors of the embedded server."""

from __future__ import annotations

import subprocess


class PostgresStartError(Exception):
    """The server could not be created or started; names the failure and the log."""


def reason_of(error: Exception) -> str:
    """A short reason why a program did not run or succeed."""
    match error:
        case subprocess.TimeoutExpired():
            return f"no end after {error.timeout:g} s"
        case subprocess.CalledProcessError():
            return f"exit code {error.returncode}"
        case OSError():
            return error.strerror or type(error).__name__
        case _:
            return type(error).__name__
