"""Deadlines: created once at the edge; each step below checks how much time remains."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant of a monotonic clock. In another process it is as many seconds away as here."""

    at: float
    clock: Callable[[], float] = field(default=time.monotonic, compare=False, repr=False)

    def __reduce__(self) -> tuple[Callable[[float], Deadline], tuple[float]]:
        """Is pickled as the seconds that remain, as every process has a clock of its own."""
        return Deadline.after, (self.remaining(),)

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """The deadline `seconds` from now."""
        return cls(clock() + seconds, clock)

    def remaining(self) -> float:
        """The seconds that are left; never negative."""
        return max(0.0, self.at - self.clock())

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return self.remaining() == 0.0

    def earlier_by(self, seconds: float) -> Deadline:
        """An earlier deadline, which leaves `seconds` for the steps that follow."""
        return Deadline(self.at - seconds, self.clock)
