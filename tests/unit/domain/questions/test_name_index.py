from __future__ import annotations

import pytest

from serving.domain.questions.name_index import NameIndex, words_of


@pytest.mark.parametrize(
    ("names", "written", "meant"),
    [
        ("Melanie", "Melony", "Melanie"),
        ("Caroline", "karoline", "Caroline"),
        ("Philip", "Fillip", "Philip"),
        ("Milena, Melanie", "Melonie", "Melanie"),  # the nearest spelling of one sound
        ("Garda", "Karrda", "Garda"),
        ("Garda", "Caretto", None),  # of one sound, but spelt too differently
        ("Deborah, Vanessa, Val Vance", "Deb", "Deborah"),
        ("Deborah, Vanessa, Val Vance", "vanes", "Vanessa"),
        ("Deborah, Vanessa, Val Vance", "Van", None),  # short for two
        ("Karel, Carollton", "Carol", "Karel"),  # of one sound before a short form
        ("the river of Li, gallery", "rivver", None),  # in lower case
        ("the river of Li, gallery", "Galery", None),
        ("the river of Li, gallery", "Lee", None),  # short
        ("Мелани, Melanie", "Мелони", None),  # a script that metaphone does not know
    ],
)
def test_word_means_the_name_that_sounds_alike(names: str, written: str, meant: str | None) -> None:
    assert NameIndex(names.split(", ")).meant_by(written) == meant


def test_names_added_later_are_matched_once() -> None:
    index = NameIndex(["Melanie"])
    index.add(["Melanie Smith", "MELANIE"])

    assert [index.meant_by("Melony"), index.meant_by("Smyth")] == ["Melanie", "Smith"]


def test_words_are_runs_of_letters_with_a_minimum_length() -> None:
    assert list(words_of("Did Zoë's 3 dogs - Al, Bo2b - sail?")) == ["Did", "Zoë", "dogs", "sail"]
