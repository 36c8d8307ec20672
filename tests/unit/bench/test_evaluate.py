from __future__ import annotations

import pytest

from bench.collection import Query
from bench.quality.evaluate import Answer, ranked_segments, score, score_by_category
from trivium.values import Fact, Hit, Item, Segment


def hit(rank: int, item: Item) -> Hit:
    return Hit(item=item, rank=rank, score=1 / rank)


def said(id_: str) -> Segment:
    return Segment(id=id_, text="...")


def known(*evidence: str) -> Fact:
    return Fact(id="f", subject="a", relation="knows", object="b", evidence=evidence)


def test_a_fact_counts_as_its_evidence_in_stored_order() -> None:
    hits = [hit(1, said("s1")), hit(2, known("s9", "s3")), hit(3, said("s2"))]

    assert ranked_segments(hits) == ["s1", "s9", "s3", "s2"]


def test_a_segment_keeps_its_best_place() -> None:
    hits = [hit(1, known("s2", "s1")), hit(2, said("s1")), hit(3, said("s3"))]

    assert ranked_segments(hits) == ["s2", "s1", "s3"]


def test_the_list_is_cut_at_segments_and_not_at_hits() -> None:
    hits = [hit(1, known("s1", "s2", "s3")), hit(2, said("s4"))]

    assert ranked_segments(hits, depth=2) == ["s1", "s2"]


def answer(category: str, relevant: str, *ranked: str) -> Answer:
    query = Query(id="q", tenant="t", text="?", category=category, relevant=frozenset(relevant))
    return Answer(query, ranked)


def test_metrics_are_means_over_questions() -> None:
    scores = score([answer("x", "a", "b", "a"), answer("x", "c", "b")])

    assert scores["mrr@10"] == pytest.approx({"mean": 0.25, "low": 0, "high": 0.5})


def test_recall_is_told_by_category() -> None:
    told = score_by_category([answer("x", "a", "a"), answer("y", "a", "b"), answer("y", "a", "a")])

    assert told == {"x": {"n": 1, "recall@10": 1}, "y": {"n": 2, "recall@10": 0.5}}
