from __future__ import annotations

import pytest

from serving.domain.languages import ENGLISH, LANGUAGE_NAMES, language_of
from serving.domain.words.lexemes import MAX_BRIEF, asked_lexemes, stored_lexemes


def test_question_of_function_words_asks_for_all() -> None:
    assert dict(asked_lexemes("Who is it?", ENGLISH)) == {"~who": 1, "~is": 1, "~it": 1}


def test_function_words_are_left_out_beside_others() -> None:
    assert dict(asked_lexemes("Who is the boss of the bosses?", ENGLISH)) == {"boss": 2}


def test_function_word_written_as_a_name_is_searched() -> None:
    assert dict(asked_lexemes("Did my cousin Will sail?", ENGLISH)) == {
        "cousin": 1,
        "will": 1,
        "sail": 1,
    }
    assert asked_lexemes("Who is Will?", ENGLISH).keys() == {"~who", "~is", "~will", "will"}
    assert asked_lexemes("Is it the IT department?", ENGLISH).keys() == {"it", "depart"}
    assert ("will", 3) in stored_lexemes("My cousin Will might take the little room.", ENGLISH)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Will you? He will.", "english"),
        ("I WILL NOT DO IT", "english"),
        ("He says I should, but Don't.", "english"),
        ("Ich möchte, dass Ihr mich anruft, sobald Will kommt.", "german"),
    ],
)
def test_other_capitals_make_no_function_word_a_name(text: str, language: str) -> None:
    lexemes = {lexeme for lexeme, _ in stored_lexemes(text, language_of(language))}

    assert lexemes.isdisjoint({"will", "not", "do", "it", "don", "ihr"})


def test_chinese_function_characters_are_asked_for_in_pairs() -> None:
    assert asked_lexemes("豆豆是谁？", ENGLISH).keys() == {"豆豆", "豆是", "是谁", "豆"}
    assert asked_lexemes("谁", ENGLISH).keys() == {"谁"}
    assert "是" in dict(stored_lexemes("是谁", ENGLISH))


def test_only_a_brief_text_is_found_by_function_words() -> None:
    brief = " ".join(["is", *(f"word{place:}" for place in "abcdefghijk")])

    assert ("~is", 1) in stored_lexemes(brief, ENGLISH)
    assert len(brief.split()) == MAX_BRIEF
    assert ("~is", 1) not in stored_lexemes(f"{brief} more", ENGLISH)


def test_no_stem_is_a_function_word() -> None:
    assert "will" in asked_lexemes("willing", ENGLISH)
    assert stored_lexemes("will", ENGLISH) == [("~will", 1)]


@pytest.mark.parametrize("name", sorted(LANGUAGE_NAMES))
def test_every_language_has_lexemes(name: str) -> None:
    assert asked_lexemes("MER-0014 智齿", language_of(name)).keys() >= {"0014", "智齿"}


def test_neighbours_of_a_question_are_one_word_too() -> None:
    assert "dogsitt" in asked_lexemes("Who is the dog sitter?", ENGLISH)
    assert "dogsitt" not in {lexeme for lexeme, _ in stored_lexemes("the dog sitter", ENGLISH)}
    assert not asked_lexemes("Who is in room forty two?", ENGLISH).keys() & {
        "roomforti",
        "fortytwo",
    }
