"""Our names for the metrics of trec_eval, against a case worked by hand.

Ranked a b c d e f, relevant b, e and z (z is not found):
recall@5 = 2/3; reciprocal rank = 1/2;
nDCG@10 = (1/log2(3) + 1/log2(6)) / (1/log2(2) + 1/log2(3) + 1/log2(4))
        = (0.63093 + 0.38685) / (1 + 0.63093 + 0.5) = 1.01778 / 2.13093 = 0.47762.
"""

from __future__ import annotations

import pytest

from bench.quality.scoring.metrics import EVIDENCE, METRICS, current_first, scores

RANKED = list("abcdef")
RELEVANT = frozenset("bez")


def test_scores_are_as_worked_by_hand() -> None:
    found = scores(RANKED, RELEVANT, frozenset("bx"))

    assert tuple(found) == METRICS
    recalls = {"recall@5": 2 / 3, "recall@10": 2 / 3, "all-gold@10": 0, EVIDENCE: 1 / 3}
    assert found == pytest.approx({**recalls, "ndcg@10": 0.47762, "mrr@10": 0.5}, abs=1e-5)


@pytest.mark.parametrize(
    ("ranked", "first"),
    [("xno", 1), ("xon", 0), ("o", 0), ("xyz", 0), ("xn", 1), ("abcdefghijn", 0)],
)
def test_current_segment_must_precede_outdated_ones(ranked: str, first: float) -> None:
    assert current_first(ranked, frozenset("n"), frozenset("o")) == first
