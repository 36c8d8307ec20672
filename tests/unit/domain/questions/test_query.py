from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.items.text import text_of, text_to_embed
from serving.domain.questions.query import Filter, TimeRange, label_term
from tests.support.builders import NOON, days, fact, segment


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
