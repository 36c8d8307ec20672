"""Queries, and the periods, zones and names in them."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.items.text import MAX_QUESTIONS, questions_of, text_of, text_to_embed
from serving.domain.questions.name_index import NameIndex, words_of
from serving.domain.questions.period import Period
from serving.domain.questions.query import Filter, TimeRange, label_term
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
    ("at", "distance"), [(-2, 2), (0, 0), (0.5, 0), (1, 0), (1.5, 0.5)], ids=str
)
def test_the_distance_is_to_the_nearer_end_and_zero_within(at: float, distance: float) -> None:
    assert Period(NOON, NOON + days(1)).distance(NOON + days(at)) == timedelta(days=distance)


def test_a_period_that_ends_before_it_begins_is_rejected() -> None:
    with pytest.raises(ValueError, match="cannot end"):
        Period(NOON, NOON - days(1))


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


def test_label_filter_does_not_confuse_key_and_value() -> None:
    assert not Filter(labels={"a=b": ("c",)}).accepts(segment("1", labels={"a": "b=c"}))


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        ("Who is Mel? Where does she live?", ("Who is Mel?", "Where does she live?")),
        ("I met Mel. Who is she? And where?", ("I met Mel. Who is she?", "And where?")),
        ("Who is Mel? And where? Thank you.", ("Who is Mel?", "And where? Thank you.")),
        ("Who?? Where?!", ("Who??", "Where?!")),
        ("多少\uff1f在哪\uff1f", ("多少\uff1f", "在哪\uff1f")),
    ],
)
def test_question_includes_the_preceding_text(text: str, questions: tuple[str, ...]) -> None:
    assert questions_of(text) == questions


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Who is Mel?",
        "Who is Mel? I met her.",
        'He said "why?" and left. What did she say?',
        "Who ? ?",
        "tell me who mel is and where she lives",
    ],
)
def test_a_text_with_one_question_is_not_split(text: str) -> None:
    assert questions_of(text) == (text,)


@given(st.text(alphabet="ab ?.\n\"'"))
def test_every_word_is_in_exactly_one_part(text: str) -> None:
    parts = questions_of(text)

    assert "".join("".join(parts).split()) == "".join(text.split())
    assert len(parts) <= MAX_QUESTIONS


def test_the_last_part_has_all_further_questions() -> None:
    assert questions_of("a? b? c? d? e? f?") == ("a?", "b?", "c?", "d? e? f?")


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
