"""Writes and reads results: one self-contained JSON line for each scenario."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, TypeAlias, cast

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
Record = Mapping[str, Json]
"""A result with the environment it was measured in, as it stands in a file."""

RESULTS = Path(__file__).parents[1] / "results"
"""The folder of the results of every run; ignored by git."""

FILE_NAME = "results.jsonl"


def percentile(values: Iterable[float], share: float) -> float:
    """The least of the values that at least `share` of them do not exceed (nearest rank).

    No value is made up by interpolation: a p99 of a hundred calls is one of them.
    """
    ordered = sorted(values)
    return ordered[math.ceil(share * len(ordered)) - 1]


def percentile_ms(seconds: Sequence[float], share: float, digits: int = 3) -> float | None:
    """A percentile of times in seconds, in milliseconds; None for none."""
    return round(percentile(seconds, share) * 1e3, digits) if seconds else None


def curve_ms(seconds: Iterable[float]) -> list[float | None]:
    """The percentiles 1 to 100 of times in seconds, in milliseconds; empty for none."""
    ordered = sorted(seconds)
    return [percentile_ms(ordered, share / 100, 2) for share in range(1, 101) if ordered]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The latency of calls, in milliseconds."""

    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Self:
        """Summarises times in seconds, of which there is at least one."""
        ordered = sorted(each * 1e3 for each in seconds)
        return cls(
            mean_ms=round(math.fsum(ordered) / len(ordered), 3),
            p50_ms=round(percentile(ordered, 0.50), 3),
            p95_ms=round(percentile(ordered, 0.95), 3),
            p99_ms=round(percentile(ordered, 0.99), 3),
            max_ms=round(ordered[-1], 3),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one scenario.

    Args:
        scenario: Its name.
        parameters: What distinguishes it from other results of the scenario.
        n: The number of measurements.
        throughput_per_s: Operations per second, if measured.
        latency: Of the calls that succeeded.
        errors: The number of calls by gRPC status other than OK.
        measured: All other values; names end with their units.
    """

    scenario: str
    parameters: Mapping[str, Json] = field(default_factory=dict)
    n: int
    throughput_per_s: float | None = None
    latency: Latency | None = None
    errors: Mapping[str, int] = field(default_factory=dict)
    measured: Mapping[str, Json] = field(default_factory=dict)

    def as_record(self, environment: Mapping[str, Json]) -> Record:
        """The result as a record."""
        return {
            "scenario": self.scenario,
            "parameters": dict(self.parameters),
            "n": self.n,
            "throughput_per_s": self.throughput_per_s,
            "latency": None if self.latency is None else asdict(self.latency),
            "errors": dict(self.errors),
            "measured": dict(self.measured),
            **environment,
        }


Take: TypeAlias = Callable[[Result], None]
"""Takes a result of a run as it comes."""


def run_folder(name: str, out: Path = RESULTS) -> Path:
    """The folder of a run that starts now; it is not created."""
    return out / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def append_record(folder: Path, record: Record) -> None:
    """Appends a record to the folder's results."""
    with (folder / FILE_NAME).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def read_records(folder: Path) -> list[Record]:
    """Reads the results of a folder.

    Raises:
        OSError: There are none.
    """
    lines = (folder / FILE_NAME).read_text(encoding="utf-8").splitlines()
    return [cast(Record, json.loads(line)) for line in lines]


def select(records: Iterable[Record], scenario: str, **parameters: Json) -> list[Record]:
    """All records of a scenario that have these parameters."""
    return [
        record
        for record in records
        if record["scenario"] == scenario
        and parameters.items() <= table(record, "parameters").items()
    ]


def find(records: Iterable[Record], scenario: str, **parameters: Json) -> Record | None:
    """The first record of a scenario that has these parameters."""
    return next(iter(select(records, scenario, **parameters)), None)


def number(record: Record | None, *path: str) -> float | None:
    """The number at a path of keys; None where there is none."""
    found = _at(record, path)
    return float(found) if isinstance(found, int | float) else None


def table(record: Record | None, *path: str) -> Mapping[str, Json]:
    """The object at a path of keys; empty where there is none."""
    found = _at(record, path)
    return found if isinstance(found, Mapping) else {}


def _at(value: Json, path: Iterable[str]) -> Json:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
