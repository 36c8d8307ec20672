"""Names: which are one, and which words name them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from serving.domain.items.text import name_key, name_words, names_entity, words_to_name_by
from serving.domain.questions.query import Filter, segment_terms
from tests.support.builders import segment

ALPHABETS = {
    "devanagari": "मनीोाकखतइई ़्ंँ",
    "tamil": "மனகாீோ்இஈ ஸ",
    "bengali": "মনকাীো্ইঈ ঃঁ",
    "thai": "มานีก็ิ่้๊ ไใ",
    "hebrew": "שלום ָ ְ ִ ֵ ּ ׁ ׂ",
    "arabic": "محمد ًٌٍَُِّْ أإا",
    "vietnamese": "aăâeêoôơuưdđ\u0301\u0300\u0309\u0303\u0323 ạẤ",
    "emoji": "🙂🙃👩🏽👨\u200d\ufe0f❤ ",
    "signs": "CcAa1+#-.@_/&*! ",
    "latin": "aAß\u017fsSéÉe\u0301\u0131İiI ",
}


def plain(name: str) -> str:
    """A name as it is written, but for composition, case and white space."""
    composed = unicodedata.normalize("NFC", name).casefold()
    return unicodedata.normalize("NFC", " ".join(composed.split()))


@pytest.mark.parametrize("script", ALPHABETS)
@given(data=st.data())
def test_names_that_differ_have_different_keys(script: str, data: st.DataObject) -> None:
    names = st.text(ALPHABETS[script], min_size=1, max_size=6)
    left, right = data.draw(names), data.draw(names)
    assume(plain(left) != plain(right))

    assert name_key(left) != name_key(right)


@given(st.text(max_size=20))
def test_spellings_of_one_name_have_one_key(name: str) -> None:
    key = name_key(name)

    assert name_key(key) == key
    for form in ("NFC", "NFD"):
        assert name_key(f" {unicodedata.normalize(form, name)}\t ") == key
    assert name_key(name.casefold()) == key


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("मीना", "मोना"),
        ("கமலா", "கமல"),
        ("মিনা", "মীনা"),
        ("มานี", "มานะ"),
        ("דָּוִד", "דוד"),
        ("مُحَمَّد", "محمد"),
        ("Lan Hương", "Lan Hường"),
        ("José", "Jose"),
        ("🙂", "🙃"),
        ("👩🏽", "👩"),
        ("C#", "C++"),
        ("Floor -1", "Floor 1"),
        ("j.doe", "j-doe"),
        ("j.doe", "j doe"),
        ("O'Neil", "ONeil"),
        ("Ann's", "Ann"),
        ("₂", "2"),
        ("Ⅳ", "IV"),
        ("R&D", "R D"),
    ],
)
def test_similar_names_are_not_one(left: str, right: str) -> None:
    assert name_key(left) != name_key(right)
    for mine, other in ((left, right), (right, left)):
        about = segment("a", "We moor in Goa.", speaker=mine, entities=(mine,), entity=mine)
        for filter_ in (Filter(speakers=(other,)), Filter(entities=(other,))):
            assert not filter_.accepts(about)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Mary  Ann", " mary ann "),
        ("JOSÉ", "jose\u0301"),
        ("Straße", "STRASSE"),
        ("ΣΟΦΟΣ", "σοφος"),
        ("Mary\u00a0Ann", "Mary Ann"),
        ("Sean O\u2019Hara", "Sean O'Hara"),
        ("O\u02bcHara", "o\u2018hara"),
        ("Anne\u2010Marie", "Anne-Marie"),
        ("Anne\u2011Marie", "anne-marie"),
    ],
)
def test_case_composition_and_space_make_no_name(left: str, right: str) -> None:
    assert name_key(left) == name_key(right)
    assert segment_terms(segment("a", speaker=left)) == segment_terms(segment("a", speaker=right))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Mary-Ann's", ("mary", "ann")),
        ("j.doe", ("j", "doe")),
        ("मीना", ("मीना",)),
        ("மீனா குமாரி", ("மீனா", "குமாரி")),
        ("שָׁלוֹם", ("שָׁלוֹם",)),
        ("🙂", ("🙂",)),
        (" :  : ", (":", ":")),
        ("", ()),
    ],
)
def test_names_are_recognized_by_their_words(name: str, words: tuple[str, ...]) -> None:
    assert name_words(name) == words


def test_question_names_an_entity_however_written() -> None:
    asked = words_to_name_by("what did mary ann say to J Doe about मीना?")

    for name in ("Mary-Ann", "j.doe", "मीना"):
        assert names_entity(asked, name)
    assert not names_entity(asked, "मोना")
