"""Queries, and the zones and names in them."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.items.text import MAX_QUESTIONS, questions_of, text_of, text_to_embed
from serving.domain.questions.filters import label_term
from serving.domain.questions.name_index import NameIndex, words_of
from serving.domain.questions.query import Exclusion, Filter, NumberRange, TimeRange
from serving.domain.questions.time_zones import parse_time_zone
from tests.support.builders import NOON, days, fact, segment


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
        ("Łukasz", "Lukasz", "Łukasz"),
        ("Øystein", "Oistein", "Øystein"),
        ("Þóra", "Thora", "Þóra"),
        ("Bjorn", "Björn", "Bjorn"),
        ("Björn, Bjørn", "Bjorn", None),  # two are equally near
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


@pytest.mark.parametrize(
    ("filter_", "passes"),
    [
        (Filter(), True),
        (Filter(speakers=("priya",)), True),
        (Filter(speakers=("Rajesh", "Priya")), True),
        (Filter(speakers=("Rajesh",)), False),
        (Filter(kinds=("note",)), False),
        (Filter(sessions=("s1",), speakers=("Priya",)), True),
        (Filter(sessions=("s2",), speakers=("Priya",)), False),
        (Filter(labels={"project": ("goa", "rome")}), True),
        (Filter(labels={"project": ("rome",)}), False),
        (Filter(entities=("GOA",)), True),
        (Filter(min_importance=0.7), False),
        (Filter(event_time=TimeRange(start=NOON)), True),
        (Filter(event_time=TimeRange(end=NOON)), False),
        (Filter(created_at=TimeRange(start=NOON + days(2))), False),
    ],
)
def test_a_filter_accepts_segments_that_pass_all_its_fields(
    filter_: Filter, *, passes: bool
) -> None:
    said = segment(
        "1",
        speaker="Priya",
        session="s1",
        labels={"project": "goa"},
        entities=("Goa",),
        importance=0.6,
        created_at=NOON + days(1),
    )

    assert filter_.accepts(said) is passes


def test_a_range_is_half_open() -> None:
    span = TimeRange(NOON, NOON + days(1))

    assert NOON in span
    assert NOON + days(1) not in span


@pytest.mark.parametrize(
    ("start", "end", "overlaps"),
    [(None, None, True), (0, 1, True), (-2, 0, False), (1, None, False), (-5, None, True)],
)
def test_a_range_overlaps_a_validity_if_they_share_an_instant(
    start: int | None, end: int | None, *, overlaps: bool
) -> None:
    span = TimeRange(NOON, NOON + days(1))
    since = None if start is None else NOON + days(start)
    until = None if end is None else NOON + days(end)

    assert span.overlaps(since, until) is overlaps


def test_a_segment_is_embedded_with_title_and_speaker() -> None:
    said = segment("1", "hi", title="Day 1", speaker="Mel")
    read = segment("2", "hi", title="Day 1")
    true = fact("3", "Mel", "lives in", "Rome")

    assert text_of(said) == "Day 1. Mel: hi"
    assert text_to_embed(said) == 'Day 1. Mel: "hi"'
    assert text_to_embed(read) == "Day 1. hi"
    assert text_to_embed(true) == "Mel lives in Rome"


names = st.text("ab=\\\\", max_size=4)


@given(names, names, names, names)
def test_equal_terms_mean_equal_labels(
    key: str, value: str, other_key: str, other_value: str
) -> None:
    same_term = label_term(key, value) == label_term(other_key, other_value)

    assert same_term == ((key, value) == (other_key, other_value))


@pytest.mark.parametrize(
    ("value", "least", "most", "passes"),
    [
        ("3", 3.0, 3.0, True),
        ("3.0", 3.0, 3.0, True),
        ("007", 7.0, 7.0, True),
        ("-2.5", -2.5, 0.0, True),
        ("-2.5", -2.4, None, False),
        ("-10", -2.0, None, False),
        ("1e2", 100.0, 100.0, True),
        ("-0", 0.0, 0.0, True),
        ("0", -0.0, -0.0, True),
        ("9" * 100, 1e99, None, True),
        ("4", None, 3.9, False),
        *((text, None, None, False) for text in ("", "x", "3 ", "3,5", "1e999", "NaN", "inf")),
        *((text, None, None, False) for text in ("0x1", "1_000", "٣", ".5", "2026-03-01")),
    ],
)
def test_label_passes_a_range_of_numbers(
    value: str, least: float | None, most: float | None, *, passes: bool
) -> None:
    filter_ = Filter(labels={"a": NumberRange(least, most)})

    assert filter_.accepts(segment("1", labels={"a": value, "b": "50"})) is passes


NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_order_of_numbers_is_that_of_their_terms(value: float, least: float, most: float) -> None:
    filter_ = Filter(labels={"a": NumberRange(least, most)})

    assert filter_.accepts(segment("1", labels={"a": repr(value)})) == (least <= value <= most)


@pytest.mark.parametrize(
    ("value", "passes"),
    [
        ("2026-03-01", True),
        ("2026-03-01T12:00:00Z", True),
        ("2026-03-01 23:59", True),
        ("2026-03-02T01:30:00+02:00", True),
        ("2026-03-02", False),
        ("2026-02-28T23:30:00-00:15", False),
        ("2026-02-30", False),
        ("2026-03", False),
        ("20260301", False),
        ("0001-01-01T00:00+23:00", False),
        ("tomorrow", False),
    ],
)
def test_label_passes_a_range_of_dates(value: str, *, passes: bool) -> None:
    day = TimeRange(NOON.replace(hour=0), NOON.replace(hour=0) + days(1))

    assert Filter(labels={"a": day}).accepts(segment("1", labels={"a": value})) is passes


def test_label_filter_tells_keys_that_begin_alike() -> None:
    said = segment("1", labels={"a=": "3", "ab": "3"})

    assert not Filter(labels={"a": True}).accepts(said)
    assert not Filter(labels={"a": NumberRange()}).accepts(said)
    assert Filter(labels={"a": False, "ab": True, "a=": NumberRange(3, 3)}).accepts(said)


NOTE, ANN = Filter(kinds=("note",)), Filter(speakers=("Ann",))


@pytest.mark.parametrize(
    ("filter_", "passing"),
    [
        (Filter(all_of=(NOTE, ANN)), "both"),
        (Filter(any_of=(NOTE, ANN)), "ann both note"),
        (Filter(none_of=Exclusion(filters=(NOTE, ANN))), "none"),
        (Filter(none_of=Exclusion(filters=(Filter(all_of=(NOTE, ANN)),))), "ann none note"),
        (Filter(kinds=("note",), any_of=(ANN, Filter(min_importance=0.9))), "both"),
        (Filter(any_of=(Filter(none_of=Exclusion(ids=("both", "note"))),)), "ann none"),
    ],
)
def test_filter_within_a_filter_is_combined(filter_: Filter, passing: str) -> None:
    segments = [
        segment("ann", speaker="Ann"),
        segment("both", kind="note", speaker="Ann"),
        segment("none"),
        segment("note", kind="note"),
    ]

    assert " ".join(each.id for each in segments if filter_.accepts(each)) == passing


@pytest.mark.parametrize(
    ("filter_", "selects"),
    [
        (Filter(none_of=Exclusion(filters=(NOTE,))), False),
        (Filter(all_of=(Filter(none_of=Exclusion(kinds=("note",))),)), False),
        (Filter(all_of=(Filter(none_of=Exclusion(kinds=("note",))), ANN)), True),
        (Filter(any_of=(Filter(none_of=Exclusion(kinds=("note",))), ANN)), False),
        (Filter(any_of=(NOTE, ANN)), True),
    ],
)
def test_filter_with_a_positive_condition_selects(filter_: Filter, *, selects: bool) -> None:
    assert filter_.selects is selects


def test_label_filter_does_not_confuse_key_and_value() -> None:
    assert not Filter(labels={"a=b": ("c",)}).accepts(segment("1", labels={"a": "b=c"}))


@pytest.mark.parametrize(
    "parts",
    [
        "Who is Mel? | Where does she live?",
        "I met Mel. Who is she? | And where?",
        "Who is Mel? | And where? Thank you.",
        "Who?? | Where?!",
        "多少\uff1f|在哪\uff1f",
        "a? | b? | c? | d? e? f?",
        "",
        "Who is Mel?",
        "Who is Mel? I met her.",
        'He said "why?" and left. What did she say?',
        "Who ? ?",
        "tell me who mel is and where she lives",
    ],
)
def test_text_is_split_behind_its_questions(parts: str) -> None:
    assert questions_of(parts.replace("| ", "").replace("|", "")) == (
        *map(str.strip, parts.split("|")),
    )


@given(st.text(alphabet="ab ?.\n\"'"))
def test_every_word_is_in_exactly_one_part(text: str) -> None:
    parts = questions_of(text)

    assert "".join("".join(parts).split()) == "".join(text.split())
    assert len(parts) <= MAX_QUESTIONS


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("", "UTC"),
        ("Asia/Kolkata", "Asia/Kolkata"),
        ("-08:00", "UTC-08:00"),
        ("+05:30", "UTC+05:30"),
    ],
)
def test_name_of_a_zone_is_read_again(name: str, kept: str) -> None:
    zone = parse_time_zone(name)

    assert str(zone) == kept
    assert str(parse_time_zone(kept)) == kept


def test_offset_is_east_of_greenwich() -> None:
    assert parse_time_zone("-03:30") == timezone(timedelta(hours=-3, minutes=-30))


@pytest.mark.parametrize("name", ["Mars/Olympus", "../../etc/passwd", "UTC+25:00", "08:00"])
def test_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be a time zone"):
        parse_time_zone(name)
