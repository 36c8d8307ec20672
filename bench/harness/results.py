"""Writes and reads results: one self-contained JSON line for each scenario."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias, cast

from bench.harness.latency import Latency

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
Record = Mapping[str, Json]
"""A result with the environment it was measured in, as it stands in a file."""

RESULTS = Path(__file__).parents[1] / "results"
"""The folder of the results of every run; ignored by git."""

FILE_NAME = "results.jsonl"


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
            "latency": None if self.latency is None else dict(self.latency.as_record()),
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
        file.write(json.dumps(record, sort_keys=False) + "\n")


def read_records(folder: Path) -> list[Record]:
    """Reads the results of a folder.

    Raises:
        OSError: There are none.
    """
    lines = (folder / FILE_NAME).read_text(encoding="utf-8").splitlines()
    return [cast(Record, json.loads(line)) for line in lines]


def find(records: Iterable[Record], scenario: str, **parameters: Json) -> Record | None:
    """The first record of a scenario that has these parameters."""
    for record in records:
        if record["scenario"] == scenario and _has(record, parameters):
            return record
    return None


def select(records: Iterable[Record], scenario: str) -> list[Record]:
    """All records of a scenario."""
    return [record for record in records if record["scenario"] == scenario]


def number(record: Record | None, *path: str) -> float | None:
    """The number at a path of keys; None where there is none."""
    value: Json = record
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return float(value) if isinstance(value, int | float) else None


def table(record: Record | None, *path: str) -> Mapping[str, Json]:
    """The object at a path of keys; empty where there is none."""
    value: Json = record
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _has(record: Record, parameters: Mapping[str, Json]) -> bool:
    given = table(record, "parameters")
    return all(given.get(name) == value for name, value in parameters.items())
