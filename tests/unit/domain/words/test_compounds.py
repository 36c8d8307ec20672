"""Compounds in one word and in two."""

from __future__ import annotations

import pytest

from serving.domain.words.compounds import parts_of


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("icecream", ("ice", "cream")),
        ("dogsitter", ("dog", "sitter")),
        ("sleepover", ("sleep", "over")),
        ("bikeshed", ("bike", "shed")),
        ("together", ()),
        ("forget", ()),
        ("novotny", ()),
        ("Icecream", ()),
        ("cream", ()),
    ],
)
def test_unknown_word_of_two_known_ones_is_both(word: str, parts: tuple[str, ...]) -> None:
    assert parts_of(word, "english") == parts


@pytest.mark.parametrize("language", ["german", "simple"])
def test_language_without_a_list_has_no_parts(language: str) -> None:
    assert parts_of("icecream", language) == ()
