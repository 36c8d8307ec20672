from __future__ import annotations

import pytest

from serving.domain.name_index import NameIndex, words_of


@pytest.mark.parametrize(
    ("heard", "name"),
    [("Melony", "Melanie"), ("karoline", "Caroline"), ("Fillip", "Philip")],
)
def test_what_sounds_alike_and_is_spelt_nearly_so_is_the_name(heard: str, name: str) -> None:
    index = NameIndex([name])

    assert index.meant_by(heard) == name


def test_of_several_that_sound_alike_the_one_spelt_most_like_it_is_meant() -> None:
    index = NameIndex(["Milena", "Melanie"])

    assert index.meant_by("Melonie") == "Melanie"


def test_what_sounds_alike_and_is_spelt_otherwise_is_another_word() -> None:
    index = NameIndex(["Garda"])

    assert [index.meant_by("Karrda"), index.meant_by("Caretto")] == ["Garda", None]


@pytest.mark.parametrize(("short", "name"), [("Deb", "Deborah"), ("vanes", "Vanessa")])
def test_what_begins_one_name_alone_is_short_for_it(short: str, name: str) -> None:
    index = NameIndex(["Deborah", "Vanessa", "Val Vance"])

    assert index.meant_by(short) == name
    assert index.meant_by("Van") is None


def test_what_sounds_like_a_name_is_not_short_for_another() -> None:
    assert NameIndex(["Karel", "Carollton"]).meant_by("Carol") == "Karel"


def test_words_without_a_capital_and_short_ones_are_of_no_name() -> None:
    index = NameIndex(["the river of Li", "gallery"])

    assert [index.meant_by(word) for word in ("rivver", "Galery", "Lee")] == [None, None, None]


def test_names_that_come_later_are_heard_and_a_repeat_makes_no_second() -> None:
    index = NameIndex(["Melanie"])
    index.add(["Melanie Smith", "MELANIE"])

    assert [index.meant_by("Melony"), index.meant_by("Smyth")] == ["Melanie", "Smith"]


def test_a_script_that_metaphone_does_not_know_sounds_like_nothing() -> None:
    index = NameIndex(["Мелани", "Melanie"])

    assert index.meant_by("Мелони") is None


def test_words_are_runs_of_letters_of_some_length() -> None:
    assert list(words_of("Did Zoë's 3 dogs - Al, Bo2b - sail?")) == ["Did", "Zoë", "dogs", "sail"]
