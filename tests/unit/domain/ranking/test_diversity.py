from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from serving.domain.ranking.diversity import jaccard, maximal_marginal_relevance, words_of


def test_new_content_is_preferred_to_repeated_content() -> None:
    texts = ["we fly to goa in march", "we fly to goa in may", "the cat is ill"]

    chosen = maximal_marginal_relevance(texts, [1.0, 0.95, 0.8])

    assert [one.place for one in chosen] == [0, 2, 1]


def test_mmr_with_no_weight_on_novelty_keeps_the_order() -> None:
    chosen = maximal_marginal_relevance(["a b", "a b", "c"], [0.9, 0.8, 0.7], trade_off=1.0)

    assert [one.place for one in chosen] == [0, 1, 2]


def test_choice_names_its_most_similar_predecessor() -> None:
    texts = ["we fly to goa in march", "the cat is ill", "we fly to goa in may", "the cat is well"]

    chosen = maximal_marginal_relevance(texts, [1.0, 0.9, 0.8, 0.7])

    closest = {one.place: one.closest for one in chosen}
    assert closest == {0: None, 1: None, 2: 0, 3: 1}
    of_the_third = next(one for one in chosen if one.place == 2)
    assert of_the_third.value == 0.7 * 0.8 - (1 - 0.7) * of_the_third.max_similarity


def test_mmr_considers_only_its_pool() -> None:
    assert len(maximal_marginal_relevance(["a", "b", "c"], [3, 2, 1], pool=2)) == 2


@given(st.lists(st.text(alphabet="ab c", max_size=8), max_size=8))
def test_every_text_is_chosen_once(texts: list[str]) -> None:
    chosen = maximal_marginal_relevance(texts, [1.0] * len(texts))

    assert sorted(one.place for one in chosen) == list(range(len(texts)))


@given(st.text(), st.text())
def test_overlap_is_symmetric_and_between_zero_and_one(left: str, right: str) -> None:
    overlap = jaccard(words_of(left), words_of(right))

    assert overlap == jaccard(words_of(right), words_of(left))
    assert 0 <= overlap <= 1
