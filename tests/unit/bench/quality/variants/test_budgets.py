"""Reranking within budgets, from answers to the table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from bench.harness.collection import Query
from bench.quality.pages.tables import budgets_table
from bench.quality.scoring.evaluate import Answers, Scored
from bench.quality.scoring.metrics import scores
from bench.quality.scoring.outcome import outcome
from bench.quality.variants.budgets import with_reranking
from bench.quality.ways import Way
from tests.unit.bench.quality.scoring.answers import NO_TIME, retrieval
from trivium.values import RerankReport, Retrieval, Stage


def answered(stage: Stage, pairs: int) -> Retrieval:
    report = RerankReport(stage=stage, reason="", hit_count=pairs, elapsed=NO_TIME)
    return replace(retrieval(total=timedelta(milliseconds=20)), rerank=report)


def asked(name: str, *ranked: str) -> Answers:
    query = Query(id="q", tenant="t", text="?", relevant=frozenset("a"))
    scored = Scored(query=query, ranked=ranked, scores=scores(ranked, query.relevant, frozenset()))
    return Answers(Way(name), ("dense",), [scored, scored])


def test_a_row_has_the_gain_the_share_that_was_not_reranked_and_the_pairs() -> None:
    plain, reranked = asked("default", "b", "a"), asked("250 ms", "a", "b")
    about = {"collection": {"name": "car"}}
    records = [
        with_reranking(outcome(plain, plain).as_record(about), []),
        with_reranking(
            outcome(reranked, plain).as_record(about),
            [answered(Stage.RERANKED, 20), answered(Stage.COARSE, 0)],
        ),
    ]

    first, second = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in budgets_table(records).splitlines()[2:]
    )
    assert (first[:2], first[3].split()[0], first[4]) == (["car", "default"], "0.500", "")
    assert (second[1], second[3].split()[0]) == ("250 ms", "+0.500")
    assert second[4:] == ["50%", "10", "0", "20"]
