from __future__ import annotations

import math
from typing import Any

import pytest

from serving.domain.ranking.ledger import DecayTerm, ImportanceTerm, Ledger, LegTerm
from serving.domain.ranking.priors import (
    Decay,
    Importance,
    ImportanceStyle,
    decay_term,
    importance_term,
)
from tests.support.builders import NOON, days


def decayed(age_days: float, kind: str = "turn", **fields: Any) -> float:
    return decay_term(
        Decay(**fields), kind=kind, since=NOON - days(age_days), as_of=NOON
    ).multiplier


@pytest.mark.parametrize(("age_days", "factor"), [(0, 1.0), (30, 0.5), (60, 0.25), (3, 0.933)])
def test_a_score_halves_every_thirty_days(age_days: float, factor: float) -> None:
    assert decayed(age_days) == pytest.approx(factor, abs=5e-4)


@pytest.mark.parametrize("kind", ["person", "place", "relationship"])
def test_evergreen_kinds_decay_to_their_floor(kind: str) -> None:
    assert decayed(3650, kind) == 0.3
    assert decayed(3650) < 1e-9


def test_floor_of_a_kind_leaves_other_kinds_alone() -> None:
    assert decayed(3650, floor=0.8) == 0.8
    assert decayed(3650, "person", floor=0.8) == 0.3


def test_items_in_the_future_do_not_decay() -> None:
    assert decayed(-9) == 1.0


def test_importance_multiplies_by_seven_to_ten_tenths() -> None:
    term = importance_term(Importance(style=ImportanceStyle.MULTIPLY), 0.5, 60)

    assert term == ImportanceTerm(0.5, multiplier=0.85)


def test_importance_boosts_only_items_above_the_threshold() -> None:
    boost = Importance(style=ImportanceStyle.BOOST, boost_from=0.8)

    assert importance_term(boost, 0.79, 60) == ImportanceTerm(0.79, boost=0)
    assert importance_term(boost, 0.8, 60) == ImportanceTerm(0.8, boost=1 / 61 - 1 / 71)


def test_importance_is_off_unless_a_profile_sets_it() -> None:
    assert importance_term(Importance(), 0.9, 60) is None


def test_every_term_of_the_ledger_counts() -> None:
    leg = LegTerm(leg="dense", rank=1, weight=2.0, leg_score=0.7)
    ledger = Ledger(
        rank_constant=60,
        leg_terms=(leg,),
        importance=ImportanceTerm(0.9, multiplier=0.97, boost=0.01),
        decay=DecayTerm(3 * 86400, 30 * 86400, 0.0, 0.933),
    )

    assert math.isclose(ledger.score, 2 / 61 * 0.97 * 0.933 + 0.01, abs_tol=1e-9)
