from __future__ import annotations

import pytest

from serving.domain.languages import ENGLISH, LANGUAGE_NAMES, language_of, stemmer_of
from serving.domain.words.lexemes import (
    MAX_BRIEF,
    alternatives,
    asked_lexemes,
    is_part,
    languages_of,
    stored_lexemes,
)


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


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Die Häuser am See sind verkauft.", "german"),
        ("Los vecinos compraron dos bicicletas.", "spanish"),
        ("J'ai acheté des chevaux.", "french"),
        ("De kat ligt graag op zijn bank.", "dutch"),
        ("मेरी किताब कहाँ है?", "hindi"),
        ("Где новая книга?", "russian"),
        ("We sold the houses by the lake.", "english"),
        ("Waschmaschine kaputt", "english"),
        ("我住在北京。", "english"),
    ],
)
def test_language_of_a_text_is_that_of_its_words(text: str, language: str) -> None:
    assert languages_of(text, ENGLISH)[0].name == language


def shared(stored: str, asked: str, tenant: str) -> set[str]:
    usual = language_of(tenant)
    found = {lexeme for lexeme, _ in stored_lexemes(stored, *languages_of(stored, usual))}
    return found & asked_lexemes(asked, *languages_of(asked, usual)).keys()


@pytest.mark.parametrize("tenant", ["english", "german", "simple"])
@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("Die Häuser am See sind verkauft.", "Wem gehört das Haus?"),
        ("We sold the houses by the lake.", "Who owns a house?"),
        ("Herr Müller ruft dich morgen an.", "When does Müller call?"),
        ("Mr Müller will call you tomorrow.", "Wann ruft Müller an?"),
    ],
)
def test_tenant_is_searched_in_each_of_its_languages(stored: str, asked: str, tenant: str) -> None:
    assert shared(stored, asked, tenant)


def test_function_words_are_those_of_the_text() -> None:
    german = languages_of("Was war mit dem Will, die war da?", ENGLISH)

    assert {"~die", "~war"} <= asked_lexemes("die war", *german).keys()
    assert "die" in asked_lexemes("What did die?", ENGLISH)


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("Die Waschmaschine ist kaputt.", "Was ist mit der Maschine?"),
        ("De ziektekostenverzekering stopt in mei.", "Waar is de verzekering van mij?"),
        ("Tandläkaren ringde när jag var ute.", "Vilken läkare var det?"),
    ],
)
def test_compound_is_found_by_its_end(stored: str, asked: str) -> None:
    assert all(map(is_part, shared(stored, asked, "english")))
    assert shared(stored, asked, "english")


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("Die Maschine ist kaputt.", "Was ist mit der Waschmaschine?"),
        ("Das Krankenhaus ist weit weg von hier.", "Was ist mit dem Haus?"),
        ("The dishwasher is broken.", "Where is the washer?"),
    ],
)
def test_word_is_no_compound_of_another(stored: str, asked: str) -> None:
    assert not shared(stored, asked, "english")


@pytest.mark.parametrize(
    ("language", "one", "several"),
    [
        ("dutch", "fiets", "fietsen"),
        ("italian", "chiave", "chiavi"),
        ("portuguese", "reunião", "reuniões"),
        ("swedish", "cykel", "cyklar"),
        ("swedish", "cykeln", "cyklarna"),
        ("swedish", "möte", "mötena"),
        ("turkish", "araba", "arabaları"),
    ],
)
def test_plural_has_the_stem_of_its_singular(language: str, one: str, several: str) -> None:
    assert stemmer_of(language)(several) == stemmer_of(language)(one)


def test_alternatives_are_the_lexemes_of_each_word() -> None:
    german = languages_of("Was ist mit dem Haus und der Maschine?", ENGLISH)

    found = alternatives("Was ist mit dem Haus und der Maschine?", *german)

    assert set(found) == {("haus",), ("maschin", "-maschin")}
    assert set(alternatives("Ask my cousin Will", ENGLISH)) == {("ask",), ("cousin",), ("will",)}


def test_neighbours_of_a_question_are_one_word_too() -> None:
    assert "dogsitt" in asked_lexemes("Who is the dog sitter?", ENGLISH)
    assert "dogsitt" not in {lexeme for lexeme, _ in stored_lexemes("the dog sitter", ENGLISH)}
    assert not asked_lexemes("Who is in room forty two?", ENGLISH).keys() & {
        "roomforti",
        "fortytwo",
    }
