from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.ranking.ledger import (
    FusionMethod,
    ImportanceTerm,
    Ledger,
    LegTerm,
    RerankTerm,
    normalised,
    sigmoid,
    worth,
)


def term(**fields: float) -> LegTerm:
    return LegTerm(**{"leg": "dense", "rank": 3, "weight": 2.0, "leg_score": 0.5, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (FusionMethod.RECIPROCAL_RANK, 2 / 63),
        (FusionMethod.CONVEX, 2 * (0.5 + 1) / (0.9 + 1)),
        (FusionMethod.SCORE, 1.0),
    ],
)
def test_fusion_method_computes_its_own_term(method: FusionMethod, expected: float) -> None:
    assert worth(term(least=-1.0, most=0.9), method, 60) == pytest.approx(expected, abs=1e-12)


def test_a_scale_of_one_point_counts_in_full() -> None:
    assert normalised(0.3, 0.3, 0.3) == 1.0


def test_reranking_mixes_the_coarse_score_with_a_probability() -> None:
    ledger = Ledger(
        rank_constant=60,
        leg_terms=(term(rank=1, weight=1.0),),
        importance=ImportanceTerm(0.5, multiplier=0.85),
        rerank=RerankTerm(logit=1.2, weight=0.7, scale=0.02),
    )

    assert ledger.coarse_score == pytest.approx(0.85 / 61)
    assert ledger.score == pytest.approx(0.3 * (0.85 / 61) / 0.02 + 0.7 / (1 + math.exp(-1.2)))


@given(st.floats(-1e4, 1e4))
def test_probability_is_bounded_and_grows_with_its_logit(logit: float) -> None:
    assert 0 <= sigmoid(logit) <= sigmoid(logit + 1) <= 1
    assert math.isclose(sigmoid(logit) + sigmoid(-logit), 1, abs_tol=1e-12)
