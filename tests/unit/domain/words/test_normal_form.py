from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.words.normal_form import normal_form


@pytest.mark.parametrize(
    "zero", ["\uff10", "\u0660", "\u06f0", "\u0966", "\u09e6", "\u0e50", "\u17e0", "\U0001d7d8"]
)
def test_digits_of_every_script_are_ascii(zero: str) -> None:
    digits = "".join(chr(ord(zero) + digit) for digit in (4, 0, 1, 2, 7))

    assert normal_form(f"No. {digits}") == "No. 40127"


@pytest.mark.parametrize(
    "invisible", ["\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u200e", "\ufe0f"]
)
def test_invisible_characters_are_left_out(invisible: str) -> None:
    assert normal_form(f"pass{invisible}word") == "password"
    assert not normal_form(invisible * 3).strip()


@pytest.mark.parametrize(
    ("written", "read"),
    [("\uff21\uff22\uff23", "ABC"), ("\ufb01sh", "fish"), ("e\u0301", "\u00e9"), ("\u2460", "1")],
)
def test_compatible_characters_are_the_same(written: str, read: str) -> None:
    assert normal_form(written) == read


@given(st.text())
def test_normal_form_is_final_and_composed(text: str) -> None:
    once = normal_form(text)

    assert normal_form(once) == once
    assert unicodedata.is_normalized("NFKC", once)
