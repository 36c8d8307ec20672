"""Splitting a text into its questions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.items.text import MAX_QUESTIONS, questions_of


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
def test_question_includes_the_preceding_text(text: str, questions: tuple[str, ...]) -> None:
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
def test_a_text_with_one_question_is_not_split(text: str) -> None:
    assert questions_of(text) == (text,)


@given(st.text(alphabet="ab ?.\n\"'"))
def test_every_word_is_in_exactly_one_part(text: str) -> None:
    parts = questions_of(text)

    assert "".join("".join(parts).split()) == "".join(text.split())
    assert len(parts) <= MAX_QUESTIONS


def test_the_last_part_has_all_further_questions() -> None:
    assert questions_of("a? b? c? d? e? f?") == ("a?", "b?", "c?", "d? e? f?")
