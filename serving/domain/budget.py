"""Time as a budget: a deadline is made once, and everything below asks what remains."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant of a monotonic clock. Not for another process: pass `remaining()` there."""

    at: float
    clock: Callable[[], float] = field(default=time.monotonic, compare=False, repr=False)

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """The deadline `seconds` from now."""
        return cls(clock() + seconds, clock)

    def remaining(self) -> float:
        """The seconds left, at least 0."""
        return max(0.0, self.at - self.clock())

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return self.remaining() == 0.0

    def earlier_by(self, seconds: float) -> Deadline:
        """The deadline that leaves `seconds` for what comes after."""
        return Deadline(self.at - seconds, self.clock)
