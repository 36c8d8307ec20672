from __future__ import annotations

from bench.harness.results import Json, Record, Result
from bench.reports.compare import changes


def load(share: float, rate_per_s: float, total_ms: float) -> Record:
    parameters: dict[str, Json] = {"share": share, "rate_per_s": rate_per_s}
    measured: dict[str, Json] = {"cpu": {"total_ms": total_ms}, "curve_ms": [1.0], "note": "text"}
    return Result(scenario="load", parameters=parameters, n=1, measured=measured).as_record({})


def test_numbers_are_compared_by_scenario_and_parameters() -> None:
    old = [load(0.5, 20, 30), load(0.8, 32, 25)]
    new = [load(0.8, 40, 12), load(0.5, 25, 15)]

    assert changes(old, new) == [
        ("load 0.5: measured.cpu.total_ms", 30, 15),
        ("load 0.8: measured.cpu.total_ms", 25, 12),
    ]


def test_what_only_one_run_measured_is_left_out() -> None:
    assert changes([load(0.5, 20, 30)], [load(0.8, 20, 30)]) == []
