from __future__ import annotations

from pathlib import Path

import pytest

from bench.harness.cpu import CpuUse, per_request
from bench.harness.latency import Latency
from bench.harness.results import Json, Record, Result, append_record, find, number, read_records
from bench.reports.goals import GOALS
from bench.reports.plots import save_picture
from bench.reports.report import figures, markdown_table, summary

ENVIRONMENT: dict[str, Json] = {
    "at": "2026-03-01 12:00 UTC",
    "collection": {"name": "locomo", "segments": 10, "facts": 2, "tenants": 1, "queries": 3},
    "commit": "abc",
    "config_hash": "def",
    "machine": {"cpu": "fast", "cores": 2, "memory_gib": 8},
    "versions": {"python": "3.11"},
}
IDLE = CpuUse(wall_s=1, by_role={"postgres": 0.01}, elsewhere_s=0)
BUSY = CpuUse(wall_s=1, by_role={"postgres": 0.2, "client": 0.1}, elsewhere_s=0.5)


def load(callers: int, p50_s: float) -> Result:
    return Result(
        scenario="load",
        parameters={"loop": "closed", "callers": callers},
        n=10,
        throughput_per_s=50,
        latency=Latency.of([p50_s] * 10),
        errors={"UNAVAILABLE": 2},
        measured={
            "split": {"legs_ms": {"lexical": 3.0}, "server_ms": 9.0},
            "leg_faults": {"graph: timed out": 1},
            "cpu": per_request(BUSY, IDLE, 10),
            "curve_ms": [float(each) for each in range(1, 101)],
        },
    )


def quality(way: str, recall: float) -> Result:
    estimate: Json = {"mean": recall, "low": recall - 0.1, "high": recall + 0.1}
    return Result(
        scenario="quality",
        parameters={"way": way},
        n=10,
        measured=dict.fromkeys(("recall@5", "recall@10", "ndcg@10", "mrr@10"), estimate),
    )


def records(*results: Result, **environment: Json) -> list[Record]:
    return [result.as_record({**ENVIRONMENT, **environment}) for result in results]


EVERYTHING = records(
    load(1, 0.012),
    load(32, 0.2),
    Result(scenario="encoder alone", n=5, latency=Latency.of([0.005])),
    Result(scenario="check", n=5, latency=Latency.of([0.002])),
    Result(scenario="echo", n=5, latency=Latency.of([0.001])),
    Result(scenario="visible after", parameters={"leg": "graph"}, n=5, latency=Latency.of([0.3])),
    Result(scenario="healthy after", parameters={"start": "second"}, n=1, measured={"seconds": 30}),
    quality("lexical", 0.61),
    quality("default", 0.65),
    Result(
        scenario="memory",
        parameters={"when": "loaded"},
        n=1,
        measured={"mib_by_role": {"postgres": {"rss": 100.0, "pss": None}}},
    ),
)


def goal(name: str) -> float | None:
    (found,) = [each for each in GOALS if each.name.startswith(name)]
    return found.measure(EVERYTHING)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CPU ms a request", 30),
        ("p50 at c = 1 / encoder", 2.4),
        ("Check / bare gRPC", 2),
        ("visible in every leg", 0.3),
        ("healthy after", 30),
        ("recall@10, lexical", 0.61),
        ("recall@10, words + meaning", None),
        ("single segment", None),
    ],
)
def test_a_goal_finds_its_number_or_says_that_it_was_not_measured(
    name: str, value: float | None
) -> None:
    assert goal(name) == (None if value is None else pytest.approx(value))


def test_goals_that_were_missed_stand_out() -> None:
    written = summary(EVERYTHING)

    assert "| CPU ms a request, c = 32 | 30 | <= 11 | **missed** |" in written
    assert "| recall@10, lexical | 0.61 | >= 0.6 | reached |" in written


def test_goals_of_another_collection_are_left_out() -> None:
    other: Json = {"name": "musique"}

    assert "recall@10, lexical |" not in summary(records(quality("lexical", 0.3), collection=other))


def test_errors_and_legs_that_were_cut_short_are_never_silent() -> None:
    written = summary(EVERYTHING)

    assert "UNAVAILABLE: 2 | graph: timed out: 1 |" in written


def test_cpu_stands_by_process_with_what_idling_costs() -> None:
    assert "| postgres | 20 (1) | 20 (1) |" in summary(EVERYTHING)


def test_a_summary_of_one_result_has_no_empty_section() -> None:
    assert summary(records(quality("default", 0.7))).count("\n## ") == 2


def test_results_read_back_as_they_were_written(tmp_path: Path) -> None:
    for record in EVERYTHING:
        append_record(tmp_path, record)

    assert read_records(tmp_path) == EVERYTHING


def test_a_result_is_found_by_its_parameters() -> None:
    assert number(find(EVERYTHING, "load", callers=32), "latency", "p50_ms") == 200
    assert find(EVERYTHING, "load", callers=99) is None


def test_a_picture_is_drawn_of_what_there_is(tmp_path: Path) -> None:
    save_picture(EVERYTHING, tmp_path / "all.png")
    save_picture(records(quality("default", 0.7)), tmp_path / "one.png")
    save_picture(records(Result(scenario="echo", n=1)), tmp_path / "none.png")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.png", "one.png"]


@pytest.mark.parametrize(
    ("value", "written"),
    [(None, "-"), (3.0, "3"), (0.12345, "0.123"), (45.678, "45.7"), (1234.5, "1234")],
)
def test_numbers_have_three_figures(value: float | None, written: str) -> None:
    assert figures(value) == written


def test_a_table_has_a_line_for_its_alignment() -> None:
    assert markdown_table(("a", "b"), [("x", "1")]) == "| a | b |\n| --- | ---: |\n| x | 1 |"
