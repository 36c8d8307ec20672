"""The cost model of an index."""

from __future__ import annotations

import pytest

from serving.adapters.vector_index.tuning.costs import (
    LEAST_EXACT_ROWS,
    MOST_EXACT_ROWS,
    Line,
    MemoryPlan,
    exact_max_rows,
)


def test_a_line_goes_through_what_was_timed() -> None:
    line = Line.through([(1000, 3e-3), (3000, 7e-3), (2000, 5e-3)])

    assert line.at_none == pytest.approx(1e-3)
    assert line.per_row == pytest.approx(2e-6)


def test_times_that_fall_with_more_rows_are_noise_about_a_constant() -> None:
    line = Line.through([(1000, 3e-3), (2000, 1e-3)])

    assert line.at_none == pytest.approx(2e-3)
    assert line.per_row == 0


def test_one_number_of_rows_makes_no_line() -> None:
    with pytest.raises(ValueError, match="two distinct row counts"):
        Line.through([(1000, 1e-3), (1000, 2e-3)])


def test_lists_are_taken_where_they_halve_the_time() -> None:
    rows = exact_max_rows(Line(0.0, 40e-9), Line(1e-3, 1e-9))

    assert rows * 40e-9 == pytest.approx(2 * (1e-3 + rows * 1e-9), rel=1e-3)


def test_small_corpora_stay_exact_and_the_largest_do_not() -> None:
    assert exact_max_rows(Line(0.0, 1e-6), Line(0.0, 1e-9)) == LEAST_EXACT_ROWS
    assert exact_max_rows(Line(0.0, 1e-9), Line(1e-3, 1e-9)) == MOST_EXACT_ROWS
    assert exact_max_rows(Line(0.0, 1.1e-9), Line(1.0, 0.5e-9)) == MOST_EXACT_ROWS


def test_the_memory_of_lists_comes_to_that_of_the_store() -> None:
    exact = MemoryPlan(rows=1_000_000, dimension=384)
    tiered = MemoryPlan(rows=1_000_000, dimension=384, n_lists=4000)

    assert exact.lists_bytes == 0
    assert exact.total_bytes == exact.store_bytes == tiered.store_bytes
    assert tiered.lists_bytes / (1_000_000 * 768) == pytest.approx(1.2, abs=0.03)
