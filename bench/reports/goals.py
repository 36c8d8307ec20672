"""The goals of the measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.harness.results import Record, find, number, select

LOCOMO = "locomo"

SET_GOALS = {
    LOCOMO: ("recall@10", 0.75),
    "realtalk": ("recall@10", 0.55),
    "musique": ("recall@10", 0.78),
    "2wiki": ("recall@10", 0.965),
    "hotpotqa": ("recall@10", 0.98),
    "cranfield": ("ndcg@10", 0.58),
    "cisi": ("ndcg@10", 0.47),
}
"""The metric and the least mean that the default profile is to reach on each set."""

Measure = Callable[[Sequence[Record]], float | None]


@dataclass(frozen=True, slots=True)
class Goal:
    """A number that is to be reached.

    Args:
        name: What is measured, with its unit.
        measure: Finds it among the records; None if it was not measured.
        sense: Whether it is to be at most or at least the bound.
        bound: The goal.
        collection: The only collection for which it holds; empty for all.
    """

    name: str
    measure: Measure
    sense: Literal["<=", ">="]
    bound: float
    collection: str = ""

    def reached(self, value: float) -> bool:
        """Whether the value does."""
        return value <= self.bound if self.sense == "<=" else value >= self.bound


def _load(callers: int, *path: str) -> Measure:
    return lambda records: number(find(records, "load", loop="closed", callers=callers), *path)


def _recall(way: str) -> Measure:
    return lambda records: number(
        find(records, "quality", way=way), "measured", "recall@10", "mean"
    )


def _p50_ratio(over: Measure, under: str) -> Measure:
    def measure(records: Sequence[Record]) -> float | None:
        above, below = over(records), number(find(records, under), "latency", "p50_ms")
        return above / below if above and below else None

    return measure


def _single(*path: str) -> Measure:
    return lambda records: number(find(records, "ingest single"), *path)


def _check(records: Sequence[Record]) -> float | None:
    return number(find(records, "check"), "latency", "p50_ms")


def _segments_per_s(records: Sequence[Record]) -> float | None:
    return number(find(records, "ingest batches", kind="segments"), "throughput_per_s")


def _slowest_leg_s(records: Sequence[Record]) -> float | None:
    legs = [number(record, "latency", "p95_ms") for record in select(records, "visible after")]
    known = [leg for leg in legs if leg is not None]
    return max(known) / 1e3 if known and len(known) == len(legs) else None


def _healthy_s(records: Sequence[Record]) -> float | None:
    return number(find(records, "healthy after", start="second"), "measured", "seconds")


GOALS = (
    Goal("CPU ms a request, c = 32", _load(32, "measured", "cpu", "total_ms"), "<=", 11),
    Goal(
        "p50 at c = 1 / encoder alone",
        _p50_ratio(_load(1, "latency", "p50_ms"), "encoder alone"),
        "<=",
        2.5,
    ),
    Goal("Check / bare gRPC, p50", _p50_ratio(_check, "echo"), "<=", 2),
    Goal("single segment written, p50 ms", _single("latency", "p50_ms"), "<=", 8),
    Goal("segments/s in batches of 256", _segments_per_s, ">=", 1500),
    Goal("visible in every leg, p95 s", _slowest_leg_s, "<=", 1),
    Goal("healthy after, second start, s", _healthy_s, "<=", 45),
    Goal("recall@10, lexical", _recall("lexical"), ">=", 0.60, LOCOMO),
    Goal("recall@10, words + meaning", _recall("words + meaning"), ">=", 0.63, LOCOMO),
    Goal("recall@10, default profile", _recall("default"), ">=", 0.69, LOCOMO),
)
