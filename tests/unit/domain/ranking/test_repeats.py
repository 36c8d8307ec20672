"""Which items say the same, and what stands for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from serving.domain.items.records import ItemId, Segment
from serving.domain.ranking.diversity import jaccard, maximal_marginal_relevance, words_of
from serving.domain.ranking.holds.likeness import USUAL, likeness, scale_of
from serving.domain.ranking.ranked_list import Candidate, RankStyle, within_depth
from serving.domain.ranking.repeats import folded, newest_first, newest_of_repeats, said_in, tied
from tests.support.builders import NOON, days, fact, ids, ranked, segment


def spoken(text: str, **fields: object) -> Segment:
    return segment("a", text, **fields)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("The patient may take it twice a day.", "The patient may not take it twice a day."),
        ("Ana owes Mark 40 euros.", "Mark owes Ana 40 euros."),
        ("Turn left after the long bridge.", "Turn right after the long bridge."),
        ("We meet on 14 May.", "We meet on 15 May."),
        ("It is 5 degrees.", "It is -5 degrees."),
        ("The dose is 1.5 mg.", "The dose is 15 mg."),
        ("I live in Leeds now.", "I live in York now."),
        ("You locked the door.", "You locked the door?"),
        ("I like C#.", "I like C++."),
        ("I can come.", "I can't come."),
        ("no no", "no"),
        ("good 🙂", "good 🙃"),
        ("मीना आई", "मोना आई"),
        ("она не придёт", "она придёт"),
        ("他来", "他不来"),
        ("", "."),
    ],
)
def test_texts_that_differ_in_a_token_are_apart(left: str, right: str) -> None:
    assert said_in(spoken(left)) != said_in(spoken(right))


@pytest.mark.parametrize(
    "again",
    [
        "hello, how can I help you?",
        " HELLO, how can  I help you? ",
        "“Hello, how can I help you?”",
        "Hello how can I help you?",
    ],
)
def test_case_space_and_punctuation_make_no_difference(again: str) -> None:
    assert said_in(spoken(again)) == said_in(spoken("Hello, how can I help you?"))


def test_another_speaker_title_or_sensitivity_is_no_repeat() -> None:
    said = said_in(spoken("I am allergic to peanuts.", speaker="Ana"))

    assert said == said_in(spoken("I am allergic to peanuts!", speaker="ana "))
    for other in ({"speaker": "Bo"}, {"speaker": "Ana", "title": "Call"}):
        assert said != said_in(spoken("I am allergic to peanuts.", **other))
    hidden = spoken("I am allergic to peanuts.", speaker="Ana", sensitive=True)
    assert said != said_in(hidden)
    assert said != said_in(fact("f", "Ana", "is allergic to", "peanuts"))


def test_newest_stands_for_all_that_say_the_same() -> None:
    items = [
        segment("old", "Tea, please."),
        segment("new", "tea please", event_time=NOON + days(2)),
        segment("mid", "Tea please!", event_time=NOON + days(1)),
        segment("other", "Coffee, please."),
    ]

    newest = newest_of_repeats(items)

    assert {item.id: into.id for item, into in newest.items()} == dict.fromkeys(
        ["old", "mid", "new"], "new"
    )
    assert [item.id for item in newest_first(items[:3])] == ["new", "mid", "old"]


def test_folded_list_gives_the_rank_of_the_best() -> None:
    a, b, c, d = ids("a", "b", "c", "d")
    found = ranked("dense", "a b c d").candidates

    once = folded(found, {a: c, c: c})

    assert [candidate.item for candidate in once] == [c, b, d]
    assert once[0].score == found[0].score


@pytest.mark.parametrize(
    ("scores", "depth", "expected"),
    [
        ((3, 2, 2, 1), 4, "bc"),
        ((3, 2, 1), 3, ""),
        # The second pair follows the depth, but not once the first is folded.
        ((3, 3, 2, 2), 2, "abcd"),
        ((3, 2, 1, 1), 2, ""),
        ((3, 3, 2, 1, 0, 0), 2, "ab"),
    ],
)
def test_equal_scores_within_reach_are_tied(
    scores: tuple[float, ...], depth: int, expected: str
) -> None:
    scored = [Candidate(item, score) for item, score in zip(ids(*"abcdef"), scores, strict=False)]

    assert tied(scored, depth) == ids(*expected)


@given(st.lists(st.sampled_from([3.0, 2.0, 1.0, 0.0]), max_size=12), st.integers(1, 6), st.data())
def test_ties_beyond_reach_change_no_list(
    scores: list[float], depth: int, data: st.DataObject
) -> None:
    scored = [
        Candidate(item, score)
        for item, score in zip(ids(*"abcdefghijkl"), sorted(scores, reverse=True), strict=False)
    ]
    texts = {each.item: data.draw(st.sampled_from(["tea", "coffee"])) for each in scored}

    def newest(suspects: Iterable[ItemId]) -> dict[ItemId, ItemId]:
        groups: dict[tuple[float, str], list[ItemId]] = {}
        for each in scored:
            if each.item in suspects:
                groups.setdefault((each.score, texts[each.item]), []).append(each.item)
        return {item: group[-1] for group in groups.values() for item in group if len(group) > 1}

    within = [
        within_depth(folded(scored, newest(suspects)), depth, RankStyle.MEAN)
        for suspects in (tied(scored, depth), [each.item for each in scored])
    ]
    assert within[0] == within[1]


@given(st.lists(st.sampled_from(["Tea.", "tea", "Coffee"]), max_size=6))
def test_repeats_have_one_newest_item(texts: list[str]) -> None:
    items = [segment(f"s{place}", text) for place, text in enumerate(texts)]

    newest = newest_of_repeats(items)

    by_id = {item.item: item for item in items}
    for item, into in newest.items():
        assert newest[into] == into
        assert said_in(by_id[item]) == said_in(by_id[into])


# ---------------------------------------------------------------- likeness


def turns(count: int, usual: float) -> NDArray[np.float64]:
    """Vectors whose cosines are about `usual`; the last two are nearer to each other."""
    own = np.random.default_rng(0).standard_normal((count, 200))
    own[-1] = own[-2] + own[0]
    own *= np.sqrt(1 - usual) / np.linalg.norm(own, axis=1, keepdims=True)
    vectors: NDArray[np.float64] = np.c_[own, np.full(count, np.sqrt(usual))]
    return vectors


@pytest.mark.parametrize("usual", [0.0, 0.6, 0.85])
def test_likeness_of_turns_depends_on_no_encoder(usual: float) -> None:
    ours, theirs = turns(60, USUAL), turns(60, usual)

    found = likeness(theirs * scale_of(theirs))

    assert found == pytest.approx(likeness(ours * scale_of(ours)), abs=0.05)


def test_likeness_of_unit_vectors_is_their_cosine() -> None:
    vectors = turns(10, 0.5)

    assert likeness(vectors) == pytest.approx(vectors @ vectors.T)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_vectors_of_few_turns_keep_their_length(count: int) -> None:
    assert scale_of(np.ones((count, 1))) == pytest.approx(1, abs=0.05)


def test_vectors_of_equal_turns_have_a_scale() -> None:
    assert np.isfinite(scale_of(np.ones((64, 1))))


# ---------------------------------------------------------------- diversity


@pytest.mark.parametrize(
    ("texts", "options", "places"),
    [
        ("we fly to goa in march, we fly to goa in may, the cat is ill", {}, [0, 2, 1]),
        ("a b, a b, c", {"trade_off": 1.0}, [0, 1, 2]),
        ("a, b, c", {"pool": 2}, [0, 1]),
    ],
    ids=["new content is preferred", "novelty has no weight", "pool"],
)
def test_texts_are_chosen_by_relevance_and_novelty(
    texts: str, options: dict[str, Any], places: list[int]
) -> None:
    chosen = maximal_marginal_relevance(texts.split(", "), [1.0, 0.95, 0.8], **options)

    assert [one.place for one in chosen] == places


def test_choice_names_its_most_similar_predecessor() -> None:
    texts = ["we fly to goa in march", "the cat is ill", "we fly to goa in may", "the cat is well"]

    chosen = maximal_marginal_relevance(texts, [1.0, 0.9, 0.8, 0.7])

    closest = {one.place: one.closest for one in chosen}
    assert closest == {0: None, 1: None, 2: 0, 3: 1}
    of_the_third = next(one for one in chosen if one.place == 2)
    assert of_the_third.value == 0.7 * 0.8 - (1 - 0.7) * of_the_third.max_similarity


@given(st.lists(st.text(alphabet="ab c", max_size=8), max_size=8))
def test_every_text_is_chosen_once(texts: list[str]) -> None:
    chosen = maximal_marginal_relevance(texts, [1.0] * len(texts))

    assert sorted(one.place for one in chosen) == list(range(len(texts)))


@given(st.text(), st.text())
def test_overlap_is_symmetric_and_between_zero_and_one(left: str, right: str) -> None:
    overlap = jaccard(words_of(left), words_of(right))

    assert overlap == jaccard(words_of(right), words_of(left))
    assert 0 <= overlap <= 1
