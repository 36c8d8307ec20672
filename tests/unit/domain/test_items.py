"""Items: names, the form that is embedded, periods, and facts that supersede others."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain, pairwise, starmap
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from serving.domain.items.passage import Part, part_named, passage
from serving.domain.items.period import Period, disjoint
from serving.domain.items.records import Fact
from serving.domain.items.superseding import closings_of
from serving.domain.items.text import name_key, name_words, names_entity, words_to_name_by
from serving.domain.items.validity import Clocks, final_end
from serving.domain.questions.filters import segment_terms
from serving.domain.questions.query import Filter
from tests.support.builders import NOON, days, fact, segment
from tests.support.naive_facts import held

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


FILLER = "We talked about the weather, the garden and the roof for quite a while. " * 6


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
def test_excerpt_prefers_value_after_the_matched_words(length: int) -> None:
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


DAYS = st.integers(0, 4).map(lambda day: NOON + days(day))
IDS = "abcdef"


def home(id_: str, place: str, day: int, **fields: Any) -> Fact:
    """A single-valued fact: where Ann lives from a day on."""
    of = {"subject": "Ann", "relation": "lives in", "object": place, "recorded_at": NOON}
    return Fact(
        **{"id": id_, **of, "valid_from": NOON + days(day), "single_valued": True, **fields}
    )


def closed(*facts: Fact) -> dict[str, Fact]:
    closings = closings_of(facts, facts)
    return {one.id: replace(one, closings=closings[one.id]) for one in facts}


def ended(one: Fact) -> datetime | None:
    return final_end(one.valid_to, one.closings)


def closers(*facts: Fact) -> dict[str, list[str]]:
    return {id_: [each.by for each in one.closings] for id_, one in closed(*facts).items()}


@pytest.mark.parametrize(
    ("times", "end"),
    [({"valid_from": NOON + days(2)}, 2), ({"recorded_at": NOON + days(1)}, 1)],
    ids=["start", "record"],
)
def test_fact_closes_named_facts_from_its_time(times: dict[str, datetime], end: int) -> None:
    old = fact("old", "Ann", "lives in", "Goa")
    new = fact("new", "Bob", "met", "Cid", closes=("old", "unknown"), **times)

    stored = closed(old, new)

    assert ended(stored["old"]) == NOON + days(end)
    assert ended(stored["new"]) is None


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (home("b", "Goa", 0), home("a", "Rome", 1)),
        (home("b", "Goa", 0), home("a", "Rome", 0, recorded_at=NOON + days(1))),
        (home("a", "Goa", 0), home("b", "Rome", 0)),
        (home("a", "Goa", 0, single_valued=False), home("b", "Rome", 1)),
        (home("a", "Goa", 0, subject="ANN "), home("b", "Rome", 1, relation="Lives  in")),
    ],
    ids=["start", "record", "id", "of a plain one", "spelling"],
)
def test_of_two_values_the_later_closes_the_earlier(earlier: Fact, later: Fact) -> None:
    assert closers(later, earlier) == {earlier.id: [later.id], later.id: []}


@pytest.mark.parametrize(
    "other",
    [
        home("b", "Rome", 1, single_valued=False),
        home("b", "Rome", 1, subject="Bob"),
        home("b", "Rome", 1, relation="works in"),
    ],
    ids=["many values", "subject", "relation"],
)
def test_facts_that_do_not_conflict_close_nothing(other: Fact) -> None:
    assert closers(home("a", "Goa", 0, closes=("a",)), other)["a"] == []


def test_a_closing_recorded_before_the_successor_is_kept_too() -> None:
    first, third = home("a", "Goa", 0), home("c", "Oslo", 2)
    second = home("b", "Rome", 1, recorded_at=NOON + days(3))

    stored = closed(first, second, third)["a"]

    assert [closing.by for closing in stored.closings] == ["b", "c"]
    assert stored.held_until(Clocks(NOON, NOON + days(2))) == NOON + days(2)
    assert stored.held_until(Clocks(NOON, NOON + days(3))) == NOON + days(1)


def test_retracted_fact_closes_another_only_while_known() -> None:
    old, wrong = home("a", "Goa", 0), home("b", "Rome", 1, retracted_at=NOON + days(5))

    stored = closed(old, wrong)["a"]

    assert ended(stored) is None
    assert stored.holds(Clocks(NOON + days(4)))
    assert stored.holds(Clocks(NOON + days(5)))
    assert stored.holds(Clocks(NOON + days(4), NOON + days(5)))
    assert not stored.holds(Clocks(NOON + days(6), NOON + days(4)))


@st.composite
def facts(draw: st.DrawFn) -> list[Fact]:
    return [
        fact(
            id_,
            draw(st.sampled_from(["Ann", "ann", "Bob"])),
            draw(st.sampled_from(["lives in", "works in"])),
            "somewhere",
            recorded_at=draw(DAYS),
            valid_from=draw(st.none() | DAYS),
            valid_to=draw(st.none() | DAYS),
            retracted_at=draw(st.none() | DAYS),
            closes=tuple(draw(st.sets(st.sampled_from(IDS), max_size=2)) - {id_}),
            single_valued=draw(st.booleans()),
        )
        for id_ in draw(st.sets(st.sampled_from(IDS)))
    ]


@given(facts(), DAYS, st.none() | DAYS)
def test_a_fact_holds_as_the_definitions_say(stored: list[Fact], as_of: Any, known_at: Any) -> None:
    found = [id_ for id_, one in closed(*stored).items() if one.holds(Clocks(as_of, known_at))]

    assert sorted(found) == held(stored, as_of, known_at)


@given(facts(), DAYS)
def test_the_final_end_is_the_end_without_retracted_closings(
    stored: list[Fact], as_of: Any
) -> None:
    for one in closed(*stored).values():
        assert one.held_until(Clocks(as_of)) == ended(one)


def period(begins: int, ends: int) -> Period:
    """From one day on and before another, counted from noon."""
    return Period(NOON + days(begins), NOON + days(ends))


def on_days(periods: Iterable[Period]) -> list[int]:
    ranges = (range((each.begins - NOON).days, (each.ends - NOON).days) for each in periods)
    return [*chain.from_iterable(ranges)]


@pytest.mark.parametrize(
    ("at", "distance"), [(-2, 2), (0, 0), (0.5, 0), (1, 0), (1.5, 0.5)], ids=str
)
def test_the_distance_is_to_the_nearer_end_and_zero_within(at: float, distance: float) -> None:
    assert Period(NOON, NOON + days(1)).distance(NOON + days(at)) == timedelta(days=distance)


def test_a_period_that_ends_before_it_begins_is_rejected() -> None:
    with pytest.raises(ValueError, match="cannot end"):
        Period(NOON, NOON - days(1))


PERIODS = st.builds(
    lambda first, length: period(first, first + length), st.integers(-30, 30), st.integers(1, 9)
)


@given(st.lists(PERIODS, max_size=9))
def test_disjoint_periods_have_each_day_once(periods: list[Period]) -> None:
    parts = disjoint(periods)

    assert on_days(parts) == sorted(set(on_days(periods)))
    assert all(before.ends < after.begins for before, after in pairwise(parts))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([(0, 92)], [(0, 92)]),
        ([(30, 61), (0, 30), (61, 92), (92, 122)], [(0, 92)]),
        ([(0, 92), (92, 93), (95, 96)], [(0, 92), (95, 96)]),
        ([(0, 50), (99, 140), (50, 99)], [(0, 50), (99, 140)]),
    ],
)
def test_period_that_makes_another_too_long_is_dropped(
    given: list[tuple[int, int]], kept: list[tuple[int, int]]
) -> None:
    assert disjoint(starmap(period, given)) == tuple(starmap(period, kept))
