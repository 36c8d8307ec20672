"""A clock that a test advances."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class SteppedClock:
    """Seconds since the start; a test adds to `now`."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now
