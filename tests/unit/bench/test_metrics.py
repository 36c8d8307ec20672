"""The metric code against cases worked by hand.

Ranked a b c d e f, relevant b, e and z (z is not found):
recall@5 = 2/3; reciprocal rank = 1/2;
nDCG@5 = (1/log2(3) + 1/log2(6)) / (1/log2(2) + 1/log2(3) + 1/log2(4))
       = (0.63093 + 0.38685) / (1 + 0.63093 + 0.5) = 1.01778 / 2.13093 = 0.47762.
"""

from __future__ import annotations

import pytest

from bench.quality.metrics import estimate, ndcg_at, recall_at, reciprocal_rank_at

RANKED = list("abcdef")
RELEVANT = frozenset("bez")


def test_recall_counts_what_was_found_of_all_that_is_relevant() -> None:
    assert recall_at(5, RANKED, RELEVANT) == pytest.approx(2 / 3)
    assert recall_at(4, RANKED, RELEVANT) == pytest.approx(1 / 3)


def test_ndcg_is_as_worked_by_hand() -> None:
    assert ndcg_at(5, RANKED, RELEVANT) == pytest.approx(0.47762, abs=1e-5)


def test_the_best_ndcg_is_1_even_if_more_is_relevant_than_fits() -> None:
    assert ndcg_at(2, ["b", "e", "z"], RELEVANT) == 1


def test_the_reciprocal_rank_is_that_of_the_first_relevant() -> None:
    assert reciprocal_rank_at(5, RANKED, RELEVANT) == 0.5
    assert reciprocal_rank_at(1, RANKED, RELEVANT) == 0


def test_nothing_found_scores_nothing() -> None:
    scores = [metric(10, [], RELEVANT) for metric in (recall_at, ndcg_at, reciprocal_rank_at)]

    assert scores == [0, 0, 0]


def test_the_interval_holds_the_mean_and_narrows_with_more_queries() -> None:
    few, many = estimate([0.0, 1.0] * 20), estimate([0.0, 1.0] * 2000)

    assert few.low < few.mean < few.high
    assert (few.mean, many.mean) == (0.5, 0.5)
    # The normal approximation: 1.96 * 0.5 / sqrt(n).
    assert few.high - few.low == pytest.approx(2 * 0.155, abs=0.03)
    assert many.high - many.low == pytest.approx(2 * 0.0155, abs=0.003)


def test_the_same_scores_have_the_same_interval() -> None:
    scores = [0.1, 0.7, 0.4]

    assert estimate(scores) == estimate(scores)
