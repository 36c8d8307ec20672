from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.adapters.postgres.words.query_plan import (
    MAX_WORDS,
    Budget,
    QueryPlan,
    WordStatistics,
    plan_query,
    quoted,
)

USUAL = Budget()
SMALL = Budget(all_rows=100, candidates=50, postings=1000)


def statistics(**frequencies: int) -> WordStatistics:
    """The statistics of a thousand segments, with the words in the given numbers of them."""
    return WordStatistics(1000, frequencies)


def once(*words: str) -> dict[str, int]:
    """A question with each of the words once."""
    return dict.fromkeys(words, 1)


def planned(budget: Budget = USUAL, /, **frequencies: int) -> QueryPlan:
    """The plan for a question with these words, each once."""
    return plan_query(once(*frequencies), statistics(**frequencies), budget)


def test_all_words_bring_candidates_where_few_rows_match() -> None:
    plan = planned(SMALL, goa=60, sail=40)

    assert plan.complete
    assert plan.candidates == "'sail' | 'goa'"


def test_too_common_words_count_only_in_pairs() -> None:
    plan = planned(SMALL, goa=10, sail=120, day=150)

    assert not plan.complete
    assert plan.candidates == "'goa' | ('sail' & ('day'))"


def test_pairs_stop_where_their_rows_exceed_the_budget() -> None:
    assert planned(SMALL, goa=40, sail=300, day=400).candidates == "'goa'"


def test_a_question_of_common_words_still_has_candidates() -> None:
    assert planned(SMALL, day=900, time=800).candidates == "'time'"


def test_a_complete_plan_leaves_no_word_out_whatever_the_budget() -> None:
    plan = plan_query(once("day", "time"), statistics(day=900, time=800), SMALL, complete=True)

    assert plan.complete
    assert plan.candidates == "'time' | 'day'"


def test_a_long_question_keeps_its_rarest_words() -> None:
    frequencies = {f"word{place:02}": place for place in range(1, 41)}

    plan = planned(**frequencies)

    assert plan.words == [f"'word{place:02}'" for place in range(1, MAX_WORDS + 1)]


def test_a_word_weighs_its_inverse_document_frequency() -> None:
    plan = planned(goa=10, sail=40)

    assert plan.weights == [
        pytest.approx(1.645 * math.log(1 + (10 + 40 + 0.5) / (10 + 0.5))),
        pytest.approx(1.645 * math.log(1 + (10 + 40 + 0.5) / (40 + 0.5))),
    ]


def test_a_weight_does_not_depend_on_segments_without_the_words() -> None:
    few, many = (WordStatistics(segments, {"goa": 10, "sail": 40}) for segments in (50, 5000))

    assert few.weights(["goa", "sail"]) == many.weights(["goa", "sail"])


def test_typical_length_of_a_text_changes_no_score() -> None:
    plan = planned(goa=10)

    assert plan.base + plan.slope * 60.0 == pytest.approx(1.9)  # 1 + k1


def test_words_of_an_empty_tenant_weigh_the_same() -> None:
    plan = plan_query(once("goa", "sail"), WordStatistics(0), Budget())

    assert plan.complete
    assert plan.weights[0] == plan.weights[1] > 0


@pytest.mark.parametrize(
    ("word", "written"),
    [("goa", "'goa'"), ("o'brien", "'o''brien'"), ("a\\b", "'a\\\\b'"), ("a & b", "'a & b'")],
)
def test_a_word_has_no_other_meaning_in_a_query(word: str, written: str) -> None:
    assert quoted(word) == written


words = st.dictionaries(
    st.text("abcdefgh'\\", min_size=1, max_size=4), st.integers(0, 1000), min_size=1, max_size=40
)


@given(words)
def test_expected_rows_of_single_words_stay_within_the_budget(frequencies: dict[str, int]) -> None:
    known = statistics(**frequencies)

    plan = planned(SMALL, **frequencies)

    alone = re.sub(r"\([^()]*\([^()]*\)\)", "a pair", plan.candidates).split(" | ")
    single = [word for word in frequencies if quoted(word) in alone]
    assert plan.complete or len(alone) == 1 or sum(map(known.frequency, single)) <= 50


@given(words)
def test_plan_has_candidates_and_weights_for_all_words(frequencies: dict[str, int]) -> None:
    plan = planned(SMALL, **frequencies)

    assert plan.candidates
    assert len(plan.words) == len(plan.weights) == min(len(frequencies), MAX_WORDS)
    assert all(weight > 0 for weight in plan.weights)


def test_a_repeated_word_weighs_twice() -> None:
    plan = plan_query({"goa": 2, "sail": 1}, statistics(goa=10, sail=10), Budget())

    weights = dict(zip(plan.words, plan.weights, strict=True))
    assert weights["'goa'"] == pytest.approx(2 * weights["'sail'"])
