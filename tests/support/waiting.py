"""Waiting for what a process brings about by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_S = 0.1


def until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Asks until a condition holds."""
    give_up_at = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up_at, "the condition does not come about"
        time.sleep(POLL_S)
