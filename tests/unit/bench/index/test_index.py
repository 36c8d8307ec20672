"""The measurement of the vector index, over few rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from bench.harness.results import number, read_records, table
from bench.index.searches import goal_ms, main, recall, topic_mixture
from bench.index.tables import ALONE, EXACT, REBUILT, SERVED


def test_every_way_is_measured_and_the_curve_drawn(tmp_path: Path) -> None:
    asked = ["--rows", "600", "--dimension", "16", "--quiet-s", "0.05", "--out", str(tmp_path)]

    result = CliRunner().invoke(main, asked, catch_exceptions=False)

    assert result.exit_code == 0, result.output
    *ways, rebuilt = sorted(read_records(tmp_path), key=lambda each: each["scenario"] == REBUILT)
    records = {str(table(each, "parameters")["way"]): each for each in ways}
    assert set(records) == {EXACT, SERVED, ALONE}
    assert (number(records[EXACT], "measured", "recall") or 0) > 0.99
    assert (number(records[SERVED], "measured", "recall") or 0) > 0.9
    assert number(records[SERVED], "measured", "n_lists")
    assert SERVED in (tmp_path / "summary.md").read_text()
    assert rebuilt["scenario"] == REBUILT
    assert (number(rebuilt, "measured", "p99_ratio") or 0) > 0
    assert "| 600 x 16 | 50 |" in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_rebuild_is_measured_alone_if_nothing_else_is_wanted(tmp_path: Path) -> None:
    asked = ["--rows", "600", "--dimension", "24", "--quiet-s", "0.05", "--out", str(tmp_path)]

    result = CliRunner().invoke(main, [*asked, "--rebuild-only"], catch_exceptions=False)

    assert result.exit_code == 0, result.output
    [rebuilt] = read_records(tmp_path)
    assert rebuilt["scenario"] == REBUILT
    assert number(rebuilt, "measured", "n_lists")
    tables = (tmp_path / "summary.md").read_text()
    assert "| 600 x 24 | 50 |" in tables
    assert "corpus, way" not in tables
    assert sorted(each.name for each in tmp_path.iterdir()) == ["results.jsonl", "summary.md"]


def test_a_mixture_is_of_unit_vectors_and_the_same_each_time() -> None:
    one, other = topic_mixture(500, 24), topic_mixture(500, 24)

    assert np.array_equal(one.vectors, other.vectors)
    assert np.linalg.norm(one.vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert not np.array_equal(one.vectors, topic_mixture(500, 24, seed=1).vectors)
    # A question is about a topic, so some rows are much nearer than others.
    cosines = one.queries @ one.vectors.T
    assert np.median(cosines.max(axis=1)) > 3 * np.median(np.abs(cosines))


def test_recall_is_the_share_of_the_true_nearest() -> None:
    truth = np.arange(10)[None].repeat(2, axis=0)

    assert recall([list(range(10)), [0, 1, 2, 3, 4, 91, 92, 93, 94, 95]], truth) == 0.75


@pytest.mark.parametrize(
    ("rows", "goal"), [(9_000, 0.6), (10_000, 0.6), (10_001, 2.0), (1_000_001, None)]
)
def test_a_goal_is_that_of_the_next_size(rows: int, goal: float | None) -> None:
    assert goal_ms(rows) == goal
