"""A stretch of time that a question names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

_NONE = timedelta(0)


@dataclass(frozen=True, slots=True)
class Period:
    """From `begins` up to but not including `ends`; both have a zone.

    Raises:
        ValueError: It would end before it begins.
    """

    begins: datetime
    ends: datetime

    def __post_init__(self) -> None:
        if self.ends < self.begins:
            raise ValueError(f"a period from {self.begins} cannot end at {self.ends}")

    def distance(self, instant: datetime) -> timedelta:
        """How far an instant is from the nearer end; zero within."""
        return max(self.begins - instant, instant - self.ends, _NONE)
