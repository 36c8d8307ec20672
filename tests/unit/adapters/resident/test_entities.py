"""Names that resemble a word of a question."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from serving.adapters.resident.entities import NearNames
from serving.domain.questions.named_entities import content_words, one_letter_apart

WORDS = st.text("abé", min_size=1, max_size=6)
NAMES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)


@given(st.sets(NAMES), st.sets(NAMES), NAMES)
def test_near_names_are_those_of_a_full_comparison(
    names: set[str], dropped: set[str], question: str
) -> None:
    near = NearNames()
    for name in names | dropped:
        near.add(name)
    for name in dropped - names:
        near.discard(name)

    assert near.names(question) == {name for name in names if resembles(name, question)}


def resembles(name: str, question: str) -> bool:
    """Whether a word of the name is in the question, or one that differs by a letter."""
    return any(
        word == asked or one_letter_apart(word, asked)
        for word in content_words(name)
        for asked in content_words(question)
    )
