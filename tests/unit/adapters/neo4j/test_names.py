from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.adapters.neo4j.names import (
    MAX_KEY_CHARACTERS,
    MAX_NAME_WORDS,
    MAX_QUESTION_WORDS,
    MAX_UNSPACED_LETTERS,
    NamedSpan,
    entity_key,
    entity_words,
    near_names_query,
    near_spans,
    one_letter_apart,
    question_spans,
    tenant_token,
)
from serving.domain.items.text import WORD, name_key, name_words


def keys(question: str) -> list[str]:
    return [span.words for span in question_spans(question)]


def test_every_run_of_words_is_a_span_longest_first() -> None:
    assert keys("Lotus Inn, Rome") == [
        *("lotus inn rome", "lotus inn", "inn rome", "lotus", "inn", "rome")
    ]


def test_a_span_knows_its_words_and_weighs_as_many() -> None:
    assert question_spans("where is Mara")[-1] == NamedSpan("mara", 1.0, 2, 3)
    assert question_spans("where is Mara")[0] == NamedSpan("where is mara", 3.0, 0, 3)


def test_a_run_of_stop_words_alone_is_no_span() -> None:
    assert keys("who is on the") == []
    assert "the who" not in keys("the who")
    assert keys("the band") == ["the band", "band"]


def test_a_run_that_comes_twice_is_one_span() -> None:
    assert keys("Mara, Mara!") == ["mara mara", "mara"]


@given(st.text(max_size=200), st.text("ab .", max_size=20))
def test_short_name_in_a_question_is_among_spans(name: str, rest: str) -> None:
    of_name = name_words(name)
    words = name_words(f"{rest} {name}")
    found = keys(f"{rest} {name}")

    assert all(len(key.split()) <= MAX_NAME_WORDS for key in found)
    if 0 < len(of_name) <= MAX_NAME_WORDS and words[-len(of_name) :] == of_name:
        assert entity_words(name) in found or key_is_of_stop_words(entity_words(name))


def key_is_of_stop_words(key: str) -> bool:
    return question_spans(key) == []


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("张伟住在哪里", "张伟"),
        ("田中太郎はどこに住んでいますか", "田中太郎"),
        ("คุณส้มอยู่ที่ไหน", "ส้ม"),
        ("민수는 어디에 살아?", "민수"),
    ],
)
def test_name_in_text_without_spaces_is_a_span(question: str, name: str) -> None:
    assert entity_words(name) in keys(question)


def test_parts_of_unspaced_letters_lie_within_one_another() -> None:
    spans = {span.words: span for span in question_spans("王小明说")}

    assert list(spans) == ["王小明说", "王小明", "小明说", "王小", "小明", "明说"]
    assert spans["王小明"] == NamedSpan("王小明", 1.0, 0, 0.75)
    assert (spans["小明"].start, spans["小明"].end) == (0.25, 0.75)


def test_question_without_spaces_has_bounded_spans() -> None:
    spans = question_spans(", ".join("漢字仮名交じり文" * 9 for _ in range(500)))

    assert len(spans) <= MAX_NAME_WORDS * (MAX_QUESTION_WORDS + MAX_UNSPACED_LETTERS)


def test_long_question_has_a_bounded_number_of_spans() -> None:
    spans = question_spans(" ".join(f"w{n}" for n in range(5000)))

    assert len(spans) <= MAX_NAME_WORDS * MAX_QUESTION_WORDS


@given(st.text(min_size=1, max_size=600))
def test_entity_key_is_bounded_and_folded(name: str) -> None:
    assert len(entity_key(name)) <= MAX_KEY_CHARACTERS
    if len(name_key(name)) <= MAX_KEY_CHARACTERS:
        assert entity_key(name) == name_key(name)


def test_long_names_with_different_ends_have_different_keys() -> None:
    assert entity_key("x" * 600 + "a") != entity_key("x" * 600 + "b")


@given(st.text(max_size=60), st.text(max_size=300))
def test_question_cannot_be_read_as_lucene_syntax(tenant: str, question: str) -> None:
    query = near_names_query(tenant, question)

    if query is not None:
        terms = re.fullmatch(r"\+tenant_token:t[0-9a-f]{24} \+\((.+)\)", query)
        assert terms is not None
        for term in terms.group(1).split(" "):
            assert re.fullmatch(rf"words:{WORD.pattern}(~1)?", term)


def test_tenants_have_different_tokens() -> None:
    assert len({tenant_token(name) for name in ("a", "A", "a ", "ab", "")}) == 5


@pytest.mark.parametrize(
    ("left", "right", "apart"),
    [
        ("lisbon", "lisbn", True),
        ("lisbon", "lissbon", True),
        ("lisbon", "lisban", True),
        ("lisbon", "isbon", True),
        ("lisbon", "lisbno", False),
        ("lisbon", "lisb", False),
        ("goa", "goal", False),
        ("lisbon", "madrid", False),
    ],
)
def test_words_one_letter_apart_are_similar(left: str, right: str, apart: bool) -> None:
    assert one_letter_apart(left, right) is apart
    assert one_letter_apart(right, left) is apart


def test_near_name_shares_most_words_with_the_question() -> None:
    names = ["charity race event", "race", "city race of the new year", "pottery class"]

    spans = near_spans("When was the charity race?", names)

    assert [span.words for span in spans] == ["charity race event", "race"]
    assert all(span.weight < 1 and (span.start, span.end) == (-1, -1) for span in spans)


def test_misspelt_name_is_near() -> None:
    assert [span.words for span in near_spans("a trip to Lisbn", ["lisbon"])] == ["lisbon"]
