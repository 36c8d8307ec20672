from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from serving.adapters.postgres.tables.filters import conditions_of, tags_of, terms_of
from serving.domain.questions.query import NO_FILTER, Filter, TimeRange, segment_terms
from tests.support.builders import NOON, days, segment

instants = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def weeks_of(range_: TimeRange, as_of: datetime | None = None) -> list[str] | None:
    """The week terms of a filter by time; None if it has none."""
    values = conditions_of(Filter(event_time=range_), as_of).values.values()
    return next((value for value in values if isinstance(value, list)), None)


def test_no_filter_has_no_conditions() -> None:
    assert str(conditions_of(NO_FILTER)) == ""


def test_tags_are_the_terms_and_the_week() -> None:
    tags = tags_of(segment("a", speaker="Ann"))

    assert terms_of(tags) == segment_terms(segment("a", speaker="Ann"))
    assert [tag for tag in tags if tag.startswith("w:")] == ["w:2930"]


@given(start=instants, length=st.timedeltas(timedelta(0), timedelta(days=150)), data=st.data())
def test_the_weeks_of_a_range_hold_every_instant_in_it(
    start: datetime, length: timedelta, data: st.DataObject
) -> None:
    within = start + length * data.draw(st.floats(0, 1))

    asked = weeks_of(TimeRange(start, start + length))

    assert asked is not None
    assert not set(asked).isdisjoint(tags_of(segment("a", event_time=within)))


def test_an_open_or_long_range_asks_for_no_weeks() -> None:
    assert weeks_of(TimeRange(None, NOON)) is None
    assert weeks_of(TimeRange(NOON, None)) is None
    assert weeks_of(TimeRange(NOON, NOON + days(200))) is None


def test_the_present_closes_an_open_range() -> None:
    assert weeks_of(TimeRange(NOON, None), as_of=NOON + days(7)) == ["w:2930", "w:2931"]
