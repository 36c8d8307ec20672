"""Late interaction: MaxSim, and the order of the nearest by it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from serving.domain.items.records import segment_id
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.index.late_interaction import (
    ABOVE_COSINE,
    RESCORED,
    SHARE,
    max_sims,
    rescored,
)
from serving.ports.embedding import StatedVector
from tests.fakes.meaning import OTHER_AXES, stated, states_of, stored
from tests.support.builders import ids

STATES = st.lists(st.lists(st.integers(-127, 127), min_size=3, max_size=3), min_size=1, max_size=6)


@given(asked=STATES, texts=st.lists(STATES, max_size=5))
@example(asked=[[127, 0, 0]], texts=[[[127, 0, 0]], [[0, 127, 0], [-127, 0, 0]]])
def test_max_sims_are_those_of_loops(asked: list[list[int]], texts: list[list[list[int]]]) -> None:
    made = max_sims(stated(states_of(asked)), [stored(states_of(text)) for text in texts])

    assert made == pytest.approx([by_loops(asked, text) for text in texts])


def by_loops(asked: list[list[int]], text: list[list[int]]) -> float:
    """The mean, over the question's words, of the best cosine of a word of the text."""
    best = (max(np.dot(one, word) / 127**2 for word in text) for one in asked)
    return float(np.mean([*best]))


def test_equal_states_score_the_same_at_each_place() -> None:
    drawn = np.random.default_rng(0).integers(-127, 128, (9, 7, 64)).astype(np.int8)
    text = stored(drawn[0])

    made = max_sims(stated(drawn[1]), [text, *map(stored, drawn[2:]), text])

    assert made[0] == made[-1]


def order(
    found: Sequence[tuple[str, float]], question: StatedVector, texts: dict[str, bytes]
) -> list[Candidate]:
    items = [Candidate(segment_id(id_), score) for id_, score in found]
    return rescored(items, question, lambda item: texts.get(item.id, b""), LEAST)


LEAST = 0.1
WORD, ANOTHER = [127, 0, 0], [0, 127, 0]
QUESTION = stated(states_of([WORD]))


def test_a_word_that_answers_comes_before_a_nearer_text() -> None:
    texts = {"far": stored(states_of([ANOTHER, WORD])), "near": stored(states_of([ANOTHER]))}

    ordered = order([("near", 0.6), ("far", 0.4)], QUESTION, texts)

    assert [each.item for each in ordered] == ids("far", "near")
    scores = [0.4 + SHARE * (0.6 - ABOVE_COSINE), 0.6 - SHARE * (0.6 + ABOVE_COSINE)]
    assert [each.score for each in ordered] == pytest.approx(scores)


def test_word_lifts_no_text_that_is_not_near() -> None:
    texts = {"near": stored(states_of([ANOTHER])), "apart": stored(states_of([WORD]))}

    ordered = order([("near", 0.5), ("apart", LEAST / 2)], QUESTION, texts)

    assert [each.item for each in ordered] == ids("near", "apart")
    assert ordered[1].score == LEAST / 2
    assert order([("apart", LEAST / 2)], QUESTION, texts) == ordered[1:]


def test_near_text_without_a_word_stays_near() -> None:
    texts = {"apart": stored(states_of([ANOTHER]))}

    (found,) = order([("apart", LEAST + 0.01)], QUESTION, texts)

    assert found.score == LEAST


@pytest.mark.parametrize(
    "states", [b"", stored(states_of([WORD]), OTHER_AXES)], ids=["none", "of other axes"]
)
def test_text_without_comparable_states_keeps_its_cosine(states: bytes) -> None:
    ordered = order([("a", 0.6)], QUESTION, {"a": states})

    assert [each.score for each in ordered] == [0.6]


def test_candidates_beyond_the_first_forty_come_after_them() -> None:
    found = [(f"{number:03}", 0.9 - number / 1000) for number in range(RESCORED + 2)]
    texts = {found[0][0]: stored(states_of([ANOTHER])), found[-1][0]: stored(states_of([WORD]))}

    ordered = order(found, QUESTION, texts)

    assert [each.item.id for each in ordered[RESCORED - 1 :]] == ["000", "040", "041"]
    assert len({each.score for each in ordered[RESCORED - 1 :]}) == 1
