from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.items.passage import Part, part_named, passage

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
        ("What is the newborn called?", "They call her Ottilie."),
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


@pytest.mark.parametrize("number", [1, 2, 3])
def test_text_found_by_its_meaning_shows_that_part(number: int) -> None:
    parts = [f"{FILLER * 2}{name} came by. {FILLER}" for name in ("Ann", "Bea", "Cy")]

    shown = passage("".join(parts), "Who sang?", 600, Part(number, 3))

    assert ("Ann", "Bea", "Cy")[number - 1] in shown


@pytest.mark.parametrize(
    ("question", "shown"),
    [("What is the code of the alarm?", "7315"), ("What is the code of a bicycle lock?", "Bea")],
)
def test_words_decide_before_the_part_if_most_are_there(question: str, shown: str) -> None:
    text = f"{FILLER * 2}The code of the alarm is 7315. {FILLER * 2}Bea came by. {FILLER * 3}"

    assert shown in passage(text, question, 600, Part(2, 3))


@given(st.text(max_size=300), st.text(max_size=60), st.integers(1, 120))
def test_passage_is_never_longer_than_allowed(text: str, question: str, length: int) -> None:
    shown = passage(text, question, length)

    assert len(shown) <= length
    assert (shown == text) or len(text) > length


def test_path_of_a_part_names_it() -> None:
    assert part_named(str(Part(2, 3))) == Part(2, 3)
    assert part_named("Ann -> Goa") is None
