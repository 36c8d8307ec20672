from __future__ import annotations

from bench.harness.latency import Latency
from bench.harness.results import Json, Record, Result
from bench.reports.compare import changes, pairs_table


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


def turn(commit: str, loop: str, per_s: float, total_ms: float) -> Record:
    result = Result(
        scenario="load",
        parameters={"loop": loop, "callers": 8},
        n=1,
        throughput_per_s=per_s,
        latency=Latency.of([0.010, 0.020]),
        measured={"cpu": {"total_ms": total_ms}},
    )
    return {**result.as_record({}), "commit": commit}


def test_versions_that_were_measured_in_turns_are_compared_pair_by_pair() -> None:
    turns = [
        turn("former", "closed", 50, 20),
        turn("present", "closed", 100, 15),
        turn("former", "closed", 40, 24),
        turn("former", "open", 1, 1),
        turn("present", "closed", 100, 12),
        turn("present", "open", 2, 2),
    ]

    assert pairs_table(turns).splitlines()[2:] == [
        "| c = 8, answers/s | 45 | 100 | 2.00, 2.50 |",
        "| c = 8, p50 ms | 10 | 10 | 1.00, 1.00 |",
        "| c = 8, p95 ms | 20 | 20 | 1.00, 1.00 |",
        "| c = 8, CPU ms | 22 | 13.5 | 0.75, 0.50 |",
    ]
