"""What `--explain` prints can be worked out again by whoever reads it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium import (
    AdjacentTerm,
    CurrencyReason,
    CurrencyTerm,
    DecayTerm,
    DiversityTerm,
    FusionMethod,
    ImportanceTerm,
    ItemKind,
    ItemRef,
    Ledger,
    LegTerm,
    RerankTerm,
)
from trivium.cli.ledger import ledger_lines


def worked_out(expression: str) -> float:
    """The value of an expression as it is printed."""
    python = expression.replace(" x ", " * ").replace("^", "**").removesuffix(", in days")
    assert re.fullmatch(r"[-+*/() .,e\d]*|.*(max|sigmoid).*", python), python
    names = {"max": max, "sigmoid": lambda logit: 0.5 * (1 + math.tanh(logit / 2))}
    return float(eval(python, {"__builtins__": {}}, names))


def printed(ledger: Ledger) -> dict[str, tuple[str, float]]:
    """What each line works out, by what it is called: the expression, and its value."""
    lines = [line for line in ledger_lines(ledger) if " = " in line]
    parts = [re.fullmatch(r"([\w, ]+): (.+) = ([-\d.e+]+)( \(.*\))?", line) for line in lines]
    return {
        part[1].split()[0] if part[1].startswith("adjacent") else part[1]: (part[2], float(part[3]))
        for part in parts
        if part
    }


def term(leg: str, rank: int, leg_score: float, method: FusionMethod) -> LegTerm:
    unset = LegTerm(
        leg=leg, rank=rank, weight=0.6, leg_score=leg_score, term=0, min_score=-1, max_score=1
    )
    return replace(unset, term=unset.recompute(method, 60))


OTHER = ItemRef(ItemKind.SEGMENT, "other")

ledgers = st.builds(
    lambda method, ranks, score, shares, importance, decay, rerank, factors, weight: Ledger(
        method=method,
        rank_constant=60,
        leg_terms=(terms := tuple(term(f"leg{n}", r, score, method) for n, r in enumerate(ranks))),
        fused_score=math.fsum(each.term for each in terms),
        adjacent=tuple(AdjacentTerm(share=0.1, score=each, by=OTHER) for each in shares),
        importance=importance,
        decay=decay,
        rerank=rerank,
        currency=tuple(CurrencyTerm(factor=each, reason=CurrencyReason.ASKS) for each in factors),
        tenant_weight=weight,
    ),
    st.sampled_from([FusionMethod.RECIPROCAL_RANK, FusionMethod.CONVEX, FusionMethod.SCORE]),
    st.lists(st.integers(1, 300), min_size=1, max_size=4),
    st.floats(0.01, 1),
    st.lists(st.floats(0.01, 1), max_size=2),
    st.none()
    | st.builds(
        ImportanceTerm,
        importance=st.floats(0, 1),
        multiplier=st.just(1.0) | st.floats(0.7, 1),
        boost=st.just(0.0) | st.floats(0.001, 0.01),
    ),
    st.none()
    | st.builds(
        lambda age, half_life, floor: DecayTerm(
            age=timedelta(days=age),
            half_life=timedelta(days=half_life),
            floor=floor,
            multiplier=max(floor, 2 ** -(timedelta(days=age) / timedelta(days=half_life))),
        ),
        st.floats(0, 100),
        st.floats(5, 60),
        st.sampled_from([0.0, 0.3]),
    ),
    st.none()
    | st.builds(
        RerankTerm, logit=st.floats(-9, 9), weight=st.floats(0, 1), scale=st.floats(0.01, 1)
    ),
    st.lists(st.floats(0.3, 2), max_size=2),
    st.none() | st.floats(0.1, 9),
)


LAST = ("sum", "adjacent", "score", "reranked", "what holds now", "tenant")
"""The lines whose last has the score."""


@given(ledgers)
def test_ledger_lines_add_up_to_the_score(ledger: Ledger) -> None:
    lines = printed(ledger)

    for expression, value in lines.values():
        assert worked_out(expression) == pytest.approx(value, rel=1e-4, abs=1e-7)
    last = next(name for name in reversed(LAST) if name in lines)
    assert lines[last][1] == pytest.approx(ledger.recompute(), rel=1e-5, abs=1e-9)
    if "score" in lines and ledger.decay is not None:
        assert lines["age"][1] == pytest.approx(ledger.decay.multiplier, rel=1e-5)


def test_the_lines_follow_the_formula() -> None:
    ledger = Ledger(
        leg_terms=(term("dense", 1, 0.5, FusionMethod.RECIPROCAL_RANK),),
        rank_constant=60,
        fused_score=0.6 / 61,
        importance=ImportanceTerm(importance=0.9, multiplier=0.97, boost=0.002),
        decay=DecayTerm(
            age=timedelta(days=3), half_life=timedelta(days=30), floor=0.3, multiplier=2**-0.1
        ),
        rerank=RerankTerm(logit=1.5, weight=0.7, scale=0.02),
        currency=(
            CurrencyTerm(factor=0.5, reason=CurrencyReason.ASKS),
            CurrencyTerm(
                factor=1.2,
                reason=CurrencyReason.TAKES_PLACE,
                by=ItemRef(ItemKind.SEGMENT, "c"),
            ),
        ),
        diversity=DiversityTerm(
            trade_off=0.7,
            relevance=0.0154321,
            max_similarity=0.0625,
            value=-0.00795,
            closest=ItemRef(ItemKind.SEGMENT, "b"),
        ),
        reserved_by="graph",
    )

    assert list(ledger_lines(ledger)) == [
        "dense: 0.6 / (60 + 1) = 0.00983607 (leg score 0.5)",
        "sum: 0.00983607 = 0.00983607",
        "importance 0.9: x 0.97 + 0.002",
        "age: max(0.3, 2^-(3 / 30)), in days = 0.933033",
        "score: 0.00983607 x 0.97 x 0.933033 + 0.002 = 0.0109021",
        "reranked: 0.3 x 0.0109021 / 0.02 + 0.7 x sigmoid(1.5) = 0.735833",
        "what holds now: 0.735833 x 0.5 x 1.2 = 0.4415 (asks; takes the place of c)",
        "diversity: 0.7 x 0.0154321 - 0.3 x 0.0625 = -0.00795 (like b)",
        "in a place reserved for graph",
    ]


def test_importance_without_effect_is_shown() -> None:
    silent = ImportanceTerm(importance=0.5, multiplier=1, boost=0)
    ledger = Ledger(leg_terms=(), rank_constant=60, fused_score=0.0, importance=silent)

    assert "importance 0.5: nothing" in ledger_lines(ledger)
