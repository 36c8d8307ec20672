"""The ranks of words, and what is left of those that are erased."""

from __future__ import annotations

import numpy as np
import pytest

from serving.adapters.postgres.words.tsvector import stored_words
from serving.adapters.resident import words
from serving.adapters.resident.words import Words, rank_of
from serving.domain.items.records import Segment
from serving.domain.languages import ENGLISH
from serving.domain.ranking.leg_options import WordsSearch
from serving.domain.words.query_plan import MAX_SCORED
from tests.support.builders import query, segment

EVEN = (1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("labels", "weights", "rank"),
    [
        # As `SELECT ts_rank(weights, tsv, word)` of PostgreSQL 18 prints them.
        ("D", EVEN, 0.6079271),
        ("DD", EVEN, 0.75990885),
        ("CD", (1.0, 0.0, 1.0, 1.0), 0.6079271),
        ("DAD", (0.5, 0.0, 1.0, 1.0), 0.9456644),
        ("ABCDC", (0.3, 0.7, 1.0, 0.1), 0.7444237),
        ("D", (0.0, 0.0, 0.0, 0.0), 0.0),
    ],
)
def test_rank_is_that_of_postgresql(labels: str, weights: tuple[float, ...], rank: float) -> None:
    assert rank_of(labels, weights) == np.float32(rank)


def put(all_words: Words, item: Segment) -> None:
    """Adds or replaces a segment."""
    all_words.put(item, *stored_words(item, "english"))


def found(all_words: Words, text: str) -> list[str] | None:
    """The ids that are found by words."""
    candidates = all_words.search(query(text), WordsSearch(), 10)
    return None if candidates is None else [each.item.id for each in candidates]


def test_replaced_segment_is_found_by_its_new_words() -> None:
    all_words = Words(ENGLISH)
    put(all_words, segment("a", "sailed to Goa"))
    put(all_words, segment("a", "sailed to Rome"))

    assert (found(all_words, "Goa"), found(all_words, "Rome")) == ([], ["a"])


def test_many_replaced_segments_call_for_renewal() -> None:
    all_words = Words(ENGLISH)
    for _ in range(words.MIN_DEAD_TO_RENEW + 2):
        assert not all_words.mostly_dead
        put(all_words, segment("a"))

    assert all_words.mostly_dead


def test_too_many_rows_to_score_have_no_answer() -> None:
    all_words = Words(ENGLISH)
    for number in range(MAX_SCORED + 1):
        put(all_words, segment(f"s{number:05}", "Goa"))

    assert found(all_words, "Goa") is None
    assert found(all_words, "Rome") == []
