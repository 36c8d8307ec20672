"""Tests of what a judgement of heads is worth."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from bench.holds.cases import Case
from bench.holds.fitting import TRAP, label
from bench.holds.measures import means, outcome
from serving.domain.ranking.holds.judge import Judgement, Verdict
from serving.domain.ranking.holds.statement import Statement
from serving.domain.ranking.ledger import CurrencyReason
from tests.support.builders import NOON

TURNS = [
    Statement(text=text, said=NOON + timedelta(days=day), score=1 - day / 10, speaker="Odile")
    for day, text in enumerate(["We open at eight.", "We open at nine.", "The bank opens at ten."])
]
CHANGE = Case(
    set_name="shop",
    scope="shop",
    id="q",
    category="change",
    text="When do we open?",
    head=TURNS,
    ids=["a", "b", "c"],
    gold={1: 2.0},
    golds={"b": 2.0},
    over=frozenset({0}),
    holds=frozenset(),
    traps=frozenset(),
    missing=False,
    changed=True,
)
HOLD = replace(
    CHANGE,
    category="hold",
    over=frozenset(),
    holds=frozenset({1}),
    traps=frozenset({2}),
    changed=False,
)
LIFTED = [(), (Verdict(1.2, CurrencyReason.TAKES_PLACE, 0),), ()]


def test_current_first_follows_score_times_factor() -> None:
    unmoved = outcome(CHANGE, Judgement([()] * 3)).scores
    lifted = outcome(CHANGE, Judgement(LIFTED)).scores

    assert (unmoved["current first"], unmoved["mrr"]) == (0.0, 0.5)
    assert (lifted["current first"], lifted["mrr"]) == (1.0, 1.0)


def test_holding_statement_is_kept_above_its_trap() -> None:
    over = [(), (), (Verdict(2.0, CurrencyReason.TAKES_PLACE, 1),)]

    assert outcome(HOLD, Judgement([()] * 3)).scores["kept"] == 1.0
    assert outcome(HOLD, Judgement(over)).scores["kept"] == 0.0


def test_marks_are_right_wrong_or_other() -> None:
    right = outcome(CHANGE, Judgement([()] * 3, {0: 1}))
    wrong = outcome(HOLD, Judgement([()] * 3, {1: 2, 0: 2}))

    found = means([right, wrong])

    assert (found["right"], found["wrong"], found["other"], found["harm"]) == (1, 1, 1, 1.0)


def test_label_tells_changes_from_look_alikes() -> None:
    assert label(CHANGE, 0, 1) == (1, 1.0)
    assert label(HOLD, 1, 2) == (0, TRAP)
    assert label(replace(CHANGE, over=frozenset({0, 1}), gold={2: 2.0}), 0, 1) is None
