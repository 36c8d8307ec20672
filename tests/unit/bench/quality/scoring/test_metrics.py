"""The metric code against cases worked by hand.

Ranked a b c d e f, relevant b, e and z (z is not found):
recall@5 = 2/3; reciprocal rank = 1/2;
nDCG@5 = (1/log2(3) + 1/log2(6)) / (1/log2(2) + 1/log2(3) + 1/log2(4))
       = (0.63093 + 0.38685) / (1 + 0.63093 + 0.5) = 1.01778 / 2.13093 = 0.47762.
"""

from __future__ import annotations

import pytest

from bench.quality.scoring.metrics import (
    EVIDENCE,
    METRICS,
    all_gold_at,
    evidence_recall,
    ndcg_at,
    recall_at,
    reciprocal_rank_at,
    scores,
)

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


def test_all_gold_is_there_only_if_nothing_is_missing_above_the_cut() -> None:
    assert all_gold_at(5, RANKED, frozenset("be")) == 1
    assert all_gold_at(4, RANKED, frozenset("be")) == 0
    assert all_gold_at(5, RANKED, RELEVANT) == 0


def test_evidence_is_what_reached_the_block_and_not_what_was_ranked() -> None:
    assert evidence_recall(frozenset("bx"), RELEVANT) == pytest.approx(1 / 3)


def test_nothing_found_scores_nothing() -> None:
    assert scores([], RELEVANT, frozenset()) == dict.fromkeys(METRICS, 0)


def test_every_metric_of_an_answer_has_its_name() -> None:
    found = scores(RANKED, RELEVANT, frozenset("b"))

    assert tuple(found) == METRICS
    assert found == pytest.approx(
        {
            "recall@5": 2 / 3,
            "recall@10": 2 / 3,
            "ndcg@10": 0.47762,
            "mrr@10": 0.5,
            "all-gold@10": 0,
            EVIDENCE: 1 / 3,
        },
        abs=1e-5,
    )


def test_without_a_block_nothing_is_said_of_evidence() -> None:
    assert EVIDENCE not in scores(RANKED, RELEVANT)


def test_a_question_without_judgments_is_refused_and_not_scored_as_zero() -> None:
    with pytest.raises(ValueError, match="without a relevant segment"):
        scores(RANKED, frozenset())
