"""Planning an index from what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.harness.results import Result, append_record
from bench.index.scale import Measured, Plan, in_words, main

MEASURED = Measured(rows=1_000_000, dimension=384, build_s=100.0, filled_per_s=20_000.0)


def test_a_shard_fits_its_machine_with_both_epochs_of_a_rebuild() -> None:
    for rows in (10**6, 10**8):
        plan = Plan.of(rows, 1024, machine_gib=80)

        assert plan.shards * plan.shard.rows >= rows
        assert 2 * plan.shard.total_bytes <= 0.85 * 80 * 2**30


def test_a_million_rows_fit_one_machine_and_a_billion_many() -> None:
    assert Plan.of(10**6, 1024, 80).shards == 1
    assert 100 < Plan.of(10**9, 1024, 80).shards < 200


def test_a_smaller_machine_takes_more_shards() -> None:
    assert Plan.of(10**8, 1024, 24).shards > 3 * Plan.of(10**8, 1024, 80).shards


def test_lists_take_time_by_rows_and_by_lists_and_by_dimension() -> None:
    assert MEASURED.seconds_to_build(1_000_000, 384) == 100
    assert MEASURED.seconds_to_build(4_000_000, 384) == pytest.approx(800)
    assert MEASURED.seconds_to_build(1_000_000, 768) == pytest.approx(200)


def test_times_are_told_as_people_tell_them() -> None:
    assert [in_words(each) for each in (3.2, 600, 36_000)] == ["3 s", "10 min", "10 h"]


def test_the_plan_is_a_table(tmp_path: Path) -> None:
    built = Result(
        scenario="index",
        parameters={"way": "served", "rows": 1000, "dimension": 64},
        n=1,
        measured={"build_s": 2.0},
    )
    filled = Result(scenario="index from PostgreSQL to serving", n=1, throughput_per_s=1e4)
    for each in (built, filled):
        append_record(tmp_path, each.as_record({}))

    result = CliRunner().invoke(main, [str(tmp_path)], catch_exceptions=False)

    assert result.exit_code == 0
    assert result.output.count("\n| 1") == 4


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    append_record(tmp_path, Result(scenario="other", n=1).as_record({}))

    result = CliRunner().invoke(main, [str(tmp_path)])

    assert result.exit_code == 1
    assert "bench.index.fill" in result.output
