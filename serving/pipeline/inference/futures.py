"""Completes futures from a thread, although their callers may have given up."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def deliver(future: Future[Result], result: Result) -> None:
    """Completes the future, unless it is cancelled or complete."""
    if not future.done() and future.set_running_or_notify_cancel():
        future.set_result(result)


def fail(future: Future[Result], error: Exception) -> None:
    """Fails the future, unless it is cancelled or complete."""
    if not future.done() and future.set_running_or_notify_cancel():
        future.set_exception(error)
