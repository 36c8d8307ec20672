"""When rows are in lists, how many lists there are, and how many a search reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.adapters.vector_index.rule import (
    MAX_CANDIDATES,
    IndexRule,
    candidates_for,
    n_probes,
    training_rows,
)

RULE = IndexRule(max_scanned_rows=1000)


@pytest.mark.parametrize(
    ("dimension", "device", "rows"),
    [(384, "cpu", 104_166), (1024, "cpu", 39_062), (1024, "cuda:1", 2_929_687)],
)
def test_the_limit_of_a_scan_depends_on_bytes(dimension: int, device: str, rows: int) -> None:
    assert IndexRule.of(dimension, device).max_scanned_rows == rows


@pytest.mark.parametrize(
    ("rows", "n_lists"),
    [(5, 1), (500, 15), (1024, 32), (10_000, 312), (100_000, 1264), (1_000_000, 4000)],
)
def test_lists_grow_with_the_root_of_the_rows(rows: int, n_lists: int) -> None:
    assert RULE.n_lists(rows) == n_lists


@given(rows=st.integers(1, 10**8))
def test_lists_are_trained_on_64_to_256_rows(rows: int) -> None:
    n_lists = RULE.n_lists(rows)

    assert min(rows, 64 * n_lists) <= training_rows(n_lists, rows) <= min(rows, 256 * n_lists)


@pytest.mark.parametrize(
    ("tail", "n_lists", "full"),
    [(1023, 32, False), (1024, 32, True), (3999, 4000, False), (4000, 4000, True)],
)
def test_the_tail_is_full_at_the_number_of_lists(tail: int, n_lists: int, full: bool) -> None:
    assert RULE.is_tail_full(tail, n_lists) is full


@pytest.mark.parametrize(
    ("alive", "dead", "trained_rows", "reason"),
    [
        (1000, 900, None, None),
        (1001, 0, None, "grown"),
        (501, 0, 1200, None),
        (500, 0, 1200, "shrunk"),
        (1500, 375, 1200, None),
        (1500, 376, 1200, "tombstones"),
        (2400, 0, 1200, None),
        (2401, 0, 1200, "doubled"),
    ],
)
def test_reasons_have_thresholds(
    alive: int, dead: int, trained_rows: int | None, reason: str | None
) -> None:
    assert RULE.rebuild_reason(alive, dead, trained_rows) == reason


def test_full_lists_are_rebuilt() -> None:
    assert RULE.rebuild_reason(1500, 0, 1200, full=True) == "full"


@pytest.mark.parametrize(
    ("depth", "candidates"),
    [(1, 17), (16, 32), (20, 40), (128, 256), (240, 256), (241, None), (1000, None)],
)
def test_candidates_exceed_the_depth_by_16(depth: int, candidates: int | None) -> None:
    assert candidates_for(depth) == candidates
    assert candidates is None or depth + 16 <= candidates <= MAX_CANDIDATES


def test_a_selective_filter_reads_more_lists() -> None:
    probes = [n_probes(1_000_000, 4000, passing) for passing in (1.0, 0.5, 0.25, 0.01)]

    assert probes == [96, 192, 384, 4000]


def test_small_lists_are_read_in_a_larger_share() -> None:
    assert [n_probes(rows, 1264, 1.0) for rows in (250_000, 250_001)] == [192, 96]
