from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.items.passage import passage

FILLER = "We talked about the weather, the garden and the roof for quite a while. " * 6


def test_short_text_is_shown_whole() -> None:
    assert passage("The key is under the pot.", "key", 40) == "The key is under the pot."


@pytest.mark.parametrize("before", ["", FILLER])
@pytest.mark.parametrize("after", ["", FILLER])
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where did we hide the keys?", "The key hides below the blue pot."),
        ("When was the boiler repaired?", "They repair boilers on the ninth of May."),
        ("智齿什么时候拔", "我下周三要去牙医那里拔智齿。"),
        ("แมวชื่ออะไร", "แมวของฉันชื่อส้ม"),
    ],
)
def test_passage_is_around_the_words_asked(
    before: str, after: str, question: str, answer: str
) -> None:
    shown = passage(f"{before}{answer} {after}".strip(), question, 100)

    assert answer in shown
    assert shown.startswith("…") == bool(before)
    assert shown.endswith("…") == bool(after)


def test_rare_word_decides_between_passages() -> None:
    text = (
        f"{'The caravan is old. The caravan leaks. ' * 5}{FILLER}The caravan's policy is KV-20931."
    )

    assert "KV-20931" in passage(text, "Which policy has the caravan?", 80)


@pytest.mark.parametrize("length", [50, 54, 200])
def test_value_behind_the_words_is_shown_first(length: int) -> None:
    text = f"{FILLER}Anyway, the membership number of the library is LB-55102. {FILLER}"

    assert "LB-55102" in passage(text, "What is the membership number of the library?", length)


def test_text_without_words_asked_shows_both_ends() -> None:
    shown = passage(f"It began in Leeds. {FILLER}It ended in York.", "Who sang?", 80)

    assert shown.startswith("It began in Leeds.")
    assert shown.endswith("It ended in York.")
    assert "…" in shown


@given(st.text(max_size=300), st.text(max_size=60), st.integers(1, 120))
def test_passage_is_never_longer_than_allowed(text: str, question: str, length: int) -> None:
    shown = passage(text, question, length)

    assert len(shown) <= length
    assert (shown == text) or len(text) > length
