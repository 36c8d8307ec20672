"""Summarises times by their percentiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Self


def percentile(ordered: Sequence[float], share: float) -> float:
    """The least of the values that at least `share` of them do not exceed (nearest rank).

    No value is made up by interpolation: a p99 of a hundred calls is one of them.

    Args:
        ordered: The values, ascending; not empty.
        share: Above 0 and at most 1.
    """
    return ordered[math.ceil(share * len(ordered)) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The latency of calls, in milliseconds."""

    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        """Summarises times in seconds, of which there is at least one."""
        ordered = sorted(each * 1e3 for each in seconds)
        return cls(
            mean_ms=round(math.fsum(ordered) / len(ordered), 3),
            p50_ms=round(percentile(ordered, 0.50), 3),
            p95_ms=round(percentile(ordered, 0.95), 3),
            p99_ms=round(percentile(ordered, 0.99), 3),
            max_ms=round(ordered[-1], 3),
        )

    def as_record(self) -> Mapping[str, float]:
        """The values of a result."""
        return asdict(self)


def median_ms(seconds: Sequence[float]) -> float:
    """The median of times in seconds, in milliseconds; 0 for none."""
    return round(percentile(sorted(seconds), 0.5) * 1e3, 3) if seconds else 0.0


def curve_ms(seconds: Sequence[float]) -> list[float]:
    """The percentiles 1 to 100 of times in seconds, in milliseconds; empty for none."""
    ordered = sorted(seconds)
    if not ordered:
        return []
    return [round(percentile(ordered, share / 100) * 1e3, 2) for share in range(1, 101)]
