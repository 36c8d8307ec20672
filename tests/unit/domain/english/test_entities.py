from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.english.entities import entities_in
from serving.domain.items.records import MAX_ENTITIES, MAX_NAME_BYTES
from serving.domain.items.text import name_key
from tests.support.builders import segment


def extract(text: str, *known: str, **fields: str) -> list[str]:
    names = {name_key(name): name for name in known}
    return list(entities_in(segment("s", text, **fields), names))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("yesterday I saw Mara in Lisbon", ["Mara", "Lisbon"]),
        ("we went to Lotus Books with Tom", ["Lotus Books", "Tom"]),
        ("have you read The Lord of the Rings?", ["Lord of the Rings"]),
        ("a sonata by Ludwig van Beethoven", ["Ludwig van Beethoven"]),
        ("she moved to Rio de Janeiro", ["Rio de Janeiro"]),
        ("the Bank of course refused", ["Bank"]),
        ("with Mara's boat and Tom’s car", ["Mara", "Tom"]),
        ("with Mara's Lotus Books", ["Mara", "Lotus Books"]),
        ("a book by J. K. Rowling and Dr. Watson", ["J. K. Rowling", "Dr. Watson"]),
        ("we met Mary-Ann O'Brien", ["Mary-Ann O'Brien"]),
        ("she works for NASA on her iPhone", ["NASA", "iPhone"]),
        ("with Zoë, Äbtissin Ñandú and Żółw", ["Zoë", "Äbtissin Ñandú", "Żółw"]),
        ("we met Mara, Tom and Ann", ["Mara", "Tom", "Ann"]),
        # unusual words at the start of a sentence
        ("Pieter wants to come over. Ahmed too.", ["Pieter", "Ahmed"]),
        ("Sorry, no. Moti ate it. Emily's fault!", ["Moti", "Emily"]),
        ("Ostrava is far. Kickboxing is fun. Bill me later.", ["Ostrava"]),
        ("Yaaay! Gonna go. Happiness! Hmm. Wanna come?", []),
        ("Ich komme. Nous allons. Het regent. Yo voy.", []),
    ],
)
def test_names_are_unusual_or_capitalised_words(text: str, names: list[str]) -> None:
    assert extract(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "Sailing was fun. Cooking too! Then? Nothing.",
        "I am here, and I'm fine; Thanks!",
        "see you on Monday in March or next Summer",
        "open on Saturdays and never on Mondays",
        "Will you come? May I?",
        "I AM SO HAPPY ABOUT THIS",
        "“Nice” (Really) nice",
        "all small letters here",
        "明日東京でAnnaに会う",
        " ",
    ],
)
def test_a_capital_that_says_nothing_makes_no_name(text: str) -> None:
    assert extract(text) == []


def test_first_word_is_a_name_if_seen_elsewhere() -> None:
    assert extract("Mara came. I like Mara.") == ["Mara"]
    assert extract("Mara came.", "Mara") == ["Mara"]
    assert extract("Mara Lindqvist came.") == ["Mara Lindqvist"]
    assert extract("NATO met.") == ["NATO"]


def test_calendar_word_is_a_name_only_if_known() -> None:
    assert extract("we met June on Black Friday") == ["Black Friday"]
    assert extract("we met June in spring", "June", "Spring") == ["June"]


def test_known_names_are_found_however_they_are_written() -> None:
    text = "i took mara to LOTUS BOOKS and the old town"

    assert extract(text, "Mara", "Lotus Books", "Old Town") == ["Mara", "Lotus Books", "Old Town"]
    assert extract("at lotus books", "Lotus", "Lotus Books", "Books") == ["Lotus Books"]


def test_known_ordinary_word_needs_a_capital_letter() -> None:
    assert extract("i will go", "Will") == []
    assert extract("Will you go", "Will") == []
    assert extract("i go with Will", "Will") == ["Will"]


def test_the_speaker_comes_first_and_each_name_once() -> None:
    found = extract("as MARA said to Tom, Tom", speaker="Mara", title="A trip with Ann")

    assert found == ["Mara", "Ann", "Tom"]


def test_no_more_names_than_a_caller_may_give() -> None:
    many = ", ".join(f"with Xa{n}" for n in range(200))
    long = "with " + " ".join(f"Xa{n}" for n in range(100))

    assert len(extract(many)) == MAX_ENTITIES
    assert extract(long) == []


@given(st.text(max_size=300), st.lists(st.text(max_size=20), max_size=5), st.text(max_size=20))
def test_names_of_any_text_are_distinct_and_bounded(
    text: str, known: list[str], speaker: str
) -> None:
    names = {name_key(name): name for name in known if name_key(name)}
    of = segment("s", text, speaker=speaker)

    found = entities_in(of, names)

    assert found == entities_in(of, names)
    keys = [name_key(name) for name in found]
    assert all(keys)
    assert len(set(keys)) == len(keys) <= MAX_ENTITIES
    assert all(len(name.encode()) <= MAX_NAME_BYTES for name in found[1:])


@pytest.mark.parametrize(
    ("name", "text"),
    [("李雷", "我昨天见到李雷了"), ("さくら", "明日さくらと会う"), ("สมชาย", "พบสมชายแล้ว")],
)
def test_known_name_is_found_without_spaces(name: str, text: str) -> None:
    assert extract(text, name) == [name]
    assert extract(text, name + name) == []
    assert extract(text) == []


def test_no_name_ends_within_a_letter() -> None:
    assert extract("สม\u0e49", "สม") == []
