"""Telling the questions of a text apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.text import MOST_QUESTIONS, questions_of


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        ("Who is Mel? Where does she live?", ("Who is Mel?", "Where does she live?")),
        ("I met Mel. Who is she? And where?", ("I met Mel. Who is she?", "And where?")),
        ("Who is Mel? And where? Thank you.", ("Who is Mel?", "And where? Thank you.")),
        ("Who?? Where?!", ("Who??", "Where?!")),
        ("多少\uff1f在哪\uff1f", ("多少\uff1f", "在哪\uff1f")),
    ],
)
def test_each_question_comes_with_what_is_said_before_it(
    text: str, questions: tuple[str, ...]
) -> None:
    assert questions_of(text) == questions


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Who is Mel?",
        "Who is Mel? I met her.",
        'He said "why?" and left. What did she say?',
        "Who ? ?",
        "tell me who mel is and where she lives",
    ],
)
def test_what_asks_one_thing_is_one_question(text: str) -> None:
    assert questions_of(text) == (text,)


@given(st.text(alphabet="ab ?.\n\"'"))
def test_no_word_is_lost_and_none_comes_twice(text: str) -> None:
    parts = questions_of(text)

    assert "".join("".join(parts).split()) == "".join(text.split())
    assert len(parts) <= MOST_QUESTIONS


def test_of_very_many_the_last_has_the_rest() -> None:
    assert questions_of("a? b? c? d? e? f?") == ("a?", "b?", "c?", "d? e? f?")
