from __future__ import annotations

import pytest

from serving.domain.languages import ENGLISH, LANGUAGE_NAMES, language_of


def test_configuration_names_its_language() -> None:
    assert language_of("english") is ENGLISH


@pytest.mark.parametrize("configuration", ["simple", "greek", ""])
def test_configuration_without_words_has_an_empty_language(configuration: str) -> None:
    language = language_of(configuration)

    assert language.name == configuration
    assert not language.stop_words | language.not_names | language.calendar
    assert language.possessive.search("Ann's") is None


def test_words_are_in_lower_case() -> None:
    words = ENGLISH.stop_words | ENGLISH.not_names | ENGLISH.openings | ENGLISH.abbreviations

    assert all(word == word.casefold() for word in words)


@pytest.mark.parametrize("name", sorted(LANGUAGE_NAMES))
def test_words_of_a_language_are_as_texts_are_read(name: str) -> None:
    language = language_of(name)

    for word in language.function_words | language.digits.keys() | language.repeats.keys():
        assert language.folded(word) == word


def test_case_is_that_of_the_language() -> None:
    assert language_of("turkish").folded("ISPARTA") == "\u0131sparta"
    assert ENGLISH.folded("ISPARTA") == "isparta"
    assert ENGLISH.folded("\u0130zmir") == language_of("turkish").folded("\u0130zmir") == "izmir"


def test_calendar_and_connectors_are_no_names() -> None:
    assert ENGLISH.calendar | ENGLISH.connectors <= ENGLISH.not_names
