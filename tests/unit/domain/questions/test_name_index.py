from __future__ import annotations

import pytest

from serving.domain.questions.name_index import NameIndex, words_of


@pytest.mark.parametrize(
    ("written", "name"),
    [("Melony", "Melanie"), ("karoline", "Caroline"), ("Fillip", "Philip")],
)
def test_word_of_same_sound_and_spelling_is_the_name(written: str, name: str) -> None:
    index = NameIndex([name])

    assert index.meant_by(written) == name


def test_among_equal_sounds_the_nearest_spelling_is_chosen() -> None:
    index = NameIndex(["Milena", "Melanie"])

    assert index.meant_by("Melonie") == "Melanie"


def test_word_of_distant_spelling_matches_no_name() -> None:
    index = NameIndex(["Garda"])

    assert [index.meant_by("Karrda"), index.meant_by("Caretto")] == ["Garda", None]


@pytest.mark.parametrize(("short", "name"), [("Deb", "Deborah"), ("vanes", "Vanessa")])
def test_prefix_of_a_single_name_is_its_short_form(short: str, name: str) -> None:
    index = NameIndex(["Deborah", "Vanessa", "Val Vance"])

    assert index.meant_by(short) == name
    assert index.meant_by("Van") is None


def test_word_sounding_like_a_name_shortens_no_other() -> None:
    assert NameIndex(["Karel", "Carollton"]).meant_by("Carol") == "Karel"


def test_lower_case_and_short_words_match_no_name() -> None:
    index = NameIndex(["the river of Li", "gallery"])

    assert [index.meant_by(word) for word in ("rivver", "Galery", "Lee")] == [None, None, None]


def test_names_added_later_are_matched_once() -> None:
    index = NameIndex(["Melanie"])
    index.add(["Melanie Smith", "MELANIE"])

    assert [index.meant_by("Melony"), index.meant_by("Smyth")] == ["Melanie", "Smith"]


def test_script_unknown_to_metaphone_has_no_sound() -> None:
    index = NameIndex(["Мелани", "Melanie"])

    assert index.meant_by("Мелони") is None


def test_words_are_runs_of_letters_with_a_minimum_length() -> None:
    assert list(words_of("Did Zoë's 3 dogs - Al, Bo2b - sail?")) == ["Did", "Zoë", "dogs", "sail"]
