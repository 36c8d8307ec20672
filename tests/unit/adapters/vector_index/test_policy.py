"""The rules of the tiered index."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.adapters.vector_index.tuning.policy import (
    MOST_CANDIDATES,
    FailedBuild,
    IndexPolicy,
    TierState,
    candidates_for,
    chosen_probes,
    expected_share,
    probe_steps,
    probes_for,
    training_rows,
    widened,
)
from serving.ports.vector_index import CurvePoint

POLICY = IndexPolicy(exact_max_rows=1000, recall_target=0.98)
HEALTHY = TierState(
    alive=1500,
    dead=100,
    trained_rows=1200,
    skew=3.0,
    trained_skew=2.0,
    age_s=1000.0,
    audited_recall=0.97,
)


@pytest.mark.parametrize(
    ("rows", "n_lists"),
    [(5, 1), (500, 15), (1024, 32), (10_000, 312), (100_000, 1264), (1_000_000, 4000)],
)
def test_lists_grow_with_the_root_of_the_rows_and_have_32_rows_each(
    rows: int, n_lists: int
) -> None:
    assert IndexPolicy().n_lists(rows) == n_lists


@given(rows=st.integers(1, 10**8))
def test_lists_are_trained_on_64_to_256_rows_each_if_there_are_so_many(rows: int) -> None:
    n_lists = IndexPolicy().n_lists(rows)

    assert min(rows, 64 * n_lists) <= training_rows(n_lists, rows) <= min(rows, 256 * n_lists)


def test_the_tail_may_have_as_many_rows_as_there_are_lists() -> None:
    assert [IndexPolicy().tail_limit(n_lists) for n_lists in (32, 1024, 4000)] == [1024, 1024, 4000]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (TierState(alive=1000, dead=900), None),
        (TierState(alive=1001, dead=0), "grown"),
        (HEALTHY, None),
        (replace(HEALTHY, alive=501, dead=0), None),
        (replace(HEALTHY, alive=500, dead=0), "shrunk"),
        (replace(HEALTHY, dead=375), None),
        (replace(HEALTHY, dead=376), "tombstones"),
        (replace(HEALTHY, alive=2400), None),
        (replace(HEALTHY, alive=2401), "doubled"),
        (replace(HEALTHY, skew=8.1), "skewed"),
        (replace(HEALTHY, skew=12.0, trained_skew=10.0), None),
        (replace(HEALTHY, skew=13.0, trained_skew=10.0), "skewed"),
        (replace(HEALTHY, audited_recall=0.959), "recall"),
        (replace(HEALTHY, audited_recall=0.959, age_s=599.0), None),
        (replace(HEALTHY, audited_recall=None), None),
        (replace(HEALTHY, full=True), "full"),
    ],
)
def test_each_rule_fires_at_its_threshold(state: TierState, reason: str | None) -> None:
    assert POLICY.rebuild_reason(state) == reason


@pytest.mark.parametrize(
    ("rows", "now_s", "barred"),
    [(1000, 699.0, True), (1000, 700.0, False), (1249, 100.0, True), (1250, 100.0, False)],
)
def test_what_did_not_fit_is_tried_again_after_growth_or_a_while(
    rows: int, now_s: float, barred: bool
) -> None:
    assert FailedBuild(1000, 100.0, "lists").bars(rows, now_s) == barred


def test_more_candidates_are_asked_for_than_are_wanted_up_to_what_lists_can_give() -> None:
    depths = (1, 16, 20, 128, 240, 241, 1000)
    assert [candidates_for(depth) for depth in depths] == [17, 32, 40, 256, 256, None, None]


@given(depth=st.integers(1, 10**4))
def test_there_are_always_16_candidates_to_spare(depth: int) -> None:
    candidates = candidates_for(depth)

    assert candidates is None or depth + 16 <= candidates <= MOST_CANDIDATES


@pytest.mark.parametrize(
    ("allowed", "few"), [(1, True), (256, True), (4000, True), (4001, False), (100_000, False)]
)
def test_rows_that_few_pass_are_scored_without_the_lists(allowed: int, few: bool) -> None:
    assert POLICY.prefers_scan(allowed, 100_000, 0.02) == few
    assert POLICY.prefers_scan(min(allowed, 256), 100_000, 0.0001)


def test_the_fewer_rows_pass_a_filter_the_more_lists_are_probed() -> None:
    assert [probes_for(8, 64, passing) for passing in (1.0, 0.5, 0.25, 0.01)] == [8, 16, 32, 64]


@given(k=st.integers(17, MOST_CANDIDATES), n_probes=st.integers(1, 500), more=st.integers(0, 5000))
def test_a_search_that_finds_too_little_ends_by_reading_all(
    k: int, n_probes: int, more: int
) -> None:
    n_lists, steps = n_probes + more, 0
    further: tuple[int, int] | None = (k, n_probes)
    while further is not None:
        assert further[0] <= MOST_CANDIDATES
        assert further[1] <= n_lists
        further, steps = widened(*further, n_lists), steps + 1

    assert steps <= 9


def test_a_calibration_tries_powers_of_two_and_all_lists() -> None:
    assert list(probe_steps(1)) == [1]
    assert list(probe_steps(8)) == [1, 2, 3, 4, 6, 8]
    assert list(probe_steps(20)) == [1, 2, 3, 4, 6, 8, 12, 16, 20]


def test_the_fewest_probes_that_reach_the_target_are_chosen() -> None:
    curve = [CurvePoint(1, 0.7, 0.1), CurvePoint(2, 0.98, 0.2), CurvePoint(4, 1.0, 0.4)]

    assert [chosen_probes(curve, target) for target in (0.5, 0.98, 0.99)] == [1, 2, 4]


def test_large_lists_are_read_more_often_than_small_ones() -> None:
    assert expected_share([10, 10, 10, 10], 1) == 0.25
    assert expected_share([37, 1, 1, 1], 1) == pytest.approx(0.857, abs=1e-3)
    assert expected_share([37, 1, 1, 1], 2) == 1.0
    assert expected_share([37, 1, 1, 1], 4) == 1.0
    assert expected_share([0, 0], 1) == 1.0
