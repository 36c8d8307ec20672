"""Whether an answer says that there is none, on invented conversations."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bench.quality.pages.tables import answerable_table
from bench.quality.variants.answerable import (
    Asked,
    auroc,
    compared,
    features_of,
    predicted,
    predictions_of,
)
from tests.unit.bench.quality.scoring.answers import hit, report, retrieval, said
from trivium.values import Ledger, LegTerm


def questions(family: str, *, sign: float = 1.0) -> list[Asked]:
    """Of four conversations; the first feature says whether there is an answer."""
    draw = random.Random(family)
    return [
        Asked(family, f"{family}-{number % 4}", (sign * draw.gauss(2.0 * yes), draw.random()), yes)
        for number, yes in enumerate([True] * 60 + [False] * 30)
    ]


def test_what_holds_in_every_conversation_is_predicted_for_one_that_was_not_seen() -> None:
    truths, probabilities = predicted(questions("chats"), "chats", "chats")

    assert (truths.count(True), truths.count(False)) == (60, 30)
    assert auroc(truths, probabilities)["mean"] > 0.85


def test_what_holds_in_one_family_only_misleads_in_the_other() -> None:
    asked = [*questions("chats"), *questions("books", sign=-1.0)]

    area = auroc(*predicted(asked, "books", "chats"))

    assert area["high"] < 0.3
    assert area["low"] < area["mean"] < area["high"]


def test_a_conversation_is_predicted_by_the_others_alone() -> None:
    """Each conversation has labels opposite to the others: what is remembered would be right."""
    asked = [
        Asked("chats", name, (value,), yes == (value > 0))
        for name, yes in (("one", True), ("two", False))
        for value in [-1.0, 1.0] * 20
    ]

    assert auroc(*predicted(asked, "chats", "chats"))["mean"] < 0.1


def test_the_table_names_what_was_tested_and_fitted_and_only_families_with_both_kinds() -> None:
    asked = [*questions("chats"), *questions("books"), Asked("all", "all", (1.0, 1.0), True)]

    table = answerable_table(compared(predictions_of(asked), {}))

    assert [line.split(" | ")[:4] for line in table.splitlines()[2:]] == [
        ["| chats", "its other conversations", "90", "30"],
        ["| chats", "books", "90", "30"],
        ["| books", "chats", "90", "30"],
        ["| books", "its other conversations", "90", "30"],
    ]


def test_the_features_are_what_hits_and_reports_say() -> None:
    hits = [
        replace(
            hit(rank, said(id_)),
            score=score,
            legs=legs,
            ledger=Ledger(
                leg_terms=tuple(
                    LegTerm(leg=leg, rank=1, weight=1, leg_score=score, term=1) for leg in legs
                ),
                fused_score=score,
                rank_constant=2,
            ),
        )
        for rank, (id_, score, legs) in enumerate(
            [("a", 0.8, ("lexical", "dense")), ("b", 0.6, ("dense",))], start=1
        )
    ]
    answer = retrieval(hits, reports=[replace(report("dense"), candidate_count=2)])

    assert features_of(answer) == pytest.approx(
        (0.8, 0.8, 0, 0, 0, 1.0986, 0, 0, 0.8, 0.25, 2), abs=1e-3
    )
