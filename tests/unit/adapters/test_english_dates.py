"""Dates in English questions, as of Wednesday, 15 November 2023."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.adapters.text_analysis.english_dates import MAX_DATES, EnglishDates

NOW = datetime(2023, 11, 15, 10, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def dates() -> EnglishDates:
    return EnglishDates()


def read(dates: EnglishDates, question: str, as_of: datetime = NOW) -> list[str]:
    return [
        f"{period.begins:%Y-%m-%d}..{period.ends:%Y-%m-%d}"
        for period in dates.periods(question, as_of)
    ]


@pytest.mark.parametrize(
    ("question", "period"),
    [
        ("What did Joanna watch on 1 May, 2022?", "2022-05-01..2022-05-02"),
        ("what did joanna watch on 1 may 2022", "2022-05-01..2022-05-02"),
        ("Where was she on the 10th of February 2024?", "2024-02-10..2024-02-11"),
        ("What happened before January 4th, 2024?", "2024-01-04..2024-01-05"),
        ("Who called on 4th October?", "2023-10-04..2023-10-05"),
        ("Who called on 24 December?", "2022-12-24..2022-12-25"),
        ("Which class did he have on 21.01.2024?", "2024-01-21..2024-01-22"),
        ("And on 03.02.2024?", "2024-02-03..2024-02-04"),
        ("And on 2/3/2024?", "2024-02-03..2024-02-04"),
        ("And on 2024-02-03?", "2024-02-03..2024-02-04"),
        ("How many trips did Evan make in May 2023?", "2023-05-01..2023-06-01"),
        ("Where did she go in December?", "2022-12-01..2023-01-01"),
        ("What did we plan last may?", "2023-05-01..2023-06-01"),
        ("What changed in 2022?", "2022-01-01..2023-01-01"),
        ("Who came two weeks ago?", "2023-10-30..2023-11-06"),
        ("Who came 3 days ago?", "2023-11-12..2023-11-13"),
        ("What did I say yesterday?", "2023-11-14..2023-11-15"),
        ("And the day before yesterday?", "2023-11-13..2023-11-14"),
        ("What is up next month?", "2023-12-01..2024-01-01"),
        ("Who called on Friday?", "2023-11-10..2023-11-11"),
        ("Who has called since Friday?", "2023-11-10..2023-11-11"),
        ("What did we do last weekend?", "2023-11-11..2023-11-13"),
        ("Where was he last year?", "2022-01-01..2023-01-01"),
    ],
)
def test_a_date_is_read_with_how_long_it_lasts(
    dates: EnglishDates, question: str, period: str
) -> None:
    assert read(dates, question) == [period]


@pytest.mark.parametrize(
    ("question", "period"),
    [
        ("Who came two weeks after 1 May 2023?", "2023-05-15..2023-05-22"),
        ("Who came three days after 1 May 2023?", "2023-05-04..2023-05-05"),
        ("Who came a month before May 4th, 2023?", "2023-04-01..2023-05-01"),
        ("Who came 10 years before 2022?", "2012-01-01..2013-01-01"),
        ("Who came two weeks after May 2023?", "2023-06-12..2023-06-19"),
        ("Who came two days before last weekend?", "2023-11-09..2023-11-10"),
        ("Who came a week after last May?", "2023-06-05..2023-06-12"),
        ("Who came three days after Friday?", "2023-11-13..2023-11-14"),
        ("Who came a day after yesterday?", "2023-11-15..2023-11-16"),
        ("Who came the day after 1 May 2023?", "2023-05-02..2023-05-03"),
        ("Who came the day before 2023?", "2022-12-31..2023-01-01"),
        ("What did John do the week before August 3, 2023?", "2023-07-27..2023-08-03"),
        ("And in the two weeks after 1 May 2023?", "2023-05-02..2023-05-16"),
        ("And within two weeks after 1 May 2023?", "2023-05-02..2023-05-16"),
        ("And in the first week after 1 May 2023?", "2023-05-02..2023-05-09"),
        ("And the month after May 2023?", "2023-06-01..2023-07-01"),
        ("And the year before 2022?", "2021-01-01..2022-01-01"),
    ],
)
def test_a_date_is_read_from_which_another_is_counted(
    dates: EnglishDates, question: str, period: str
) -> None:
    assert read(dates, question) == [period]


@pytest.mark.parametrize(
    "question",
    [
        "Who came weeks after 1 May 2023?",
        "Who slept the day after, on 1 May 2023?",
        "Who spent two weeks abroad before 1 May 2023?",
    ],
)
def test_invalid_distance_leaves_the_date_unchanged(dates: EnglishDates, question: str) -> None:
    assert read(dates, question) == ["2023-05-01..2023-05-02"]


@pytest.mark.parametrize(
    "question",
    [
        "What may Maria do?",
        "May I ask who March is?",
        "What did she buy recently?",
        "Who was in room 2012?",
        "Call 555.12.2024.7",
        "When did Evan's son fall off his bike?",
        "Who came two weeks after the wedding?",
        "What happens on 9999-12-31, and in 9999?",
        "What happened on 99.99.2024?",
        "",
    ],
)
def test_ordinary_text_has_no_date(dates: EnglishDates, question: str) -> None:
    assert read(dates, question) == []


def test_first_dates_are_read_in_order(dates: EnglishDates) -> None:
    months = ("June", "March", "May", "April", "July")
    question = ", ".join(f"in {month} 2021" for month in months)

    found = read(dates, question)

    assert len(found) == MAX_DATES
    assert [each[:7] for each in found] == ["2021-06", "2021-03", "2021-05", "2021-04"]


@pytest.mark.parametrize(
    ("zone", "question", "begins", "hours"),
    [
        ("America/Los_Angeles", "today", datetime(2026, 3, 8, 8, tzinfo=UTC), 23),
        ("America/Los_Angeles", "yesterday", datetime(2026, 3, 7, 8, tzinfo=UTC), 24),
        ("Pacific/Auckland", "today", datetime(2026, 3, 8, 11, tzinfo=UTC), 24),
        ("Pacific/Auckland", "yesterday", datetime(2026, 3, 7, 11, tzinfo=UTC), 24),
        ("Asia/Kolkata", "on 1 March", datetime(2026, 2, 28, 18, 30, tzinfo=UTC), 24),
        ("UTC", "today", datetime(2026, 3, 8, tzinfo=UTC), 24),
    ],
)
def test_days_are_those_of_the_zone(
    dates: EnglishDates, zone: str, question: str, begins: datetime, hours: int
) -> None:
    now = datetime(2026, 3, 8, 22, tzinfo=UTC).astimezone(ZoneInfo(zone))

    (period,) = dates.periods(question, now)

    assert period.begins == begins
    assert period.ends - period.begins == timedelta(hours=hours)


@pytest.mark.parametrize("year", [1, 9999])
@pytest.mark.parametrize(
    "when",
    [
        "999 years ago",
        "on Friday",
        "last weekend",
        "next year",
        "tomorrow",
        "in December",
        "999 years after 2022",
        "the 999 years before today",
    ],
)
def test_no_date_is_beyond_the_calendar(dates: EnglishDates, when: str, year: int) -> None:
    for as_of in (datetime(year, 1, 1, tzinfo=UTC), datetime(year, 12, 31, 23, tzinfo=UTC)):
        assert all(each.begins < each.ends for each in dates.periods(when, as_of))


@given(
    st.text(max_size=200)
    | st.from_regex(
        r"(the |two |9 )?(days |years )?(after |on |in |last )?"
        r"[0-9]{1,2}[./ ](may|12|feb)[./ ,]{1,2}[0-9]{1,4} ?(ago)?"
    ),
    st.datetimes(timezones=st.just(UTC)),
)
def test_no_text_and_no_clock_makes_it_fail(question: str, as_of: datetime) -> None:
    for period in EnglishDates().periods(question, as_of):
        assert period.begins < period.ends
