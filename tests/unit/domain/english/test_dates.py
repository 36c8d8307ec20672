"""Dates in English questions, as of Wednesday, 15 November 2023."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from serving.domain.english.dates import MAX_DATES, EnglishDates
from serving.domain.english.time_words import BEGINNING, FOLLOWING, NAMING
from serving.domain.items.period import Period

NOW = datetime(2023, 11, 15, 10, 30, tzinfo=UTC)
DATES = EnglishDates()
TABLE = Path(__file__).with_name("english_times.tsv").read_text().splitlines()
CLOCKS = [
    datetime.strptime(f"{each} UTC", "%a %Y-%m-%dT%H:%M %Z") for each in TABLE[0].split("\t")[1:]
]


def written(periods: Iterable[Period]) -> list[str]:
    """`2026-11-25T18:00..2026-11-26`, without an end that is open."""
    return [f"{_instant(each.begins)}..{_instant(each.ends)}" for each in periods]


def _instant(instant: datetime) -> str:
    if instant.year in (MINYEAR, MAXYEAR):
        return ""
    return f"{instant:%Y-%m-%dT%H:%M}".removesuffix("T00:00")


def read(question: str, as_of: datetime = NOW) -> list[str]:
    return written(DATES.times(question, as_of).periods)


def mentioned(text: str, said_at: datetime = NOW) -> list[str]:
    return written(DATES.mentioned(text, said_at))


@pytest.mark.parametrize("row", TABLE[1:], ids=lambda row: row.partition("\t")[0])
def test_phrase_is_read_at_three_dates(row: str) -> None:
    phrase, *periods = row.split("\t")

    for as_of, expected in zip(CLOCKS, periods, strict=True):
        found = read(f"What was said {phrase}?", as_of.replace(tzinfo=UTC))
        assert " ".join(found) == expected


@pytest.mark.parametrize(
    ("question", "period"),
    [
        ("what did joanna watch on 1 may 2022", "2022-05-01..2022-05-02"),
        ("Where was she on the 10th of February 2024?", "2024-02-10..2024-02-11"),
        ("What happened before January 4th, 2024?", "..2024-01-04"),
        ("What changed from Monday to Tuesday?", "2023-11-13..2023-11-15"),
        ("And on 03.02.2024?", "2024-02-03..2024-02-04"),
        ("And on 2/3/2024?", "2024-02-03..2024-02-04"),
        ("What did we plan last may?", "2023-05-01..2023-06-01"),
        ("Who called late last night?", "2023-11-14T18:00..2023-11-15T06:00"),
        ("Who called early yesterday morning?", "2023-11-14T04:00..2023-11-14T12:00"),
        ("What did I say the other night?", "2023-11-08..2023-11-15"),
        ("What did I say on Sat?", "2023-11-11..2023-11-12"),
        ("What did we do a year and a half ago?", "2022-05-01..2022-06-01"),
        ("Who came in the 2nd week of May?", "2023-05-08..2023-05-15"),
        # counted from another
        ("Who came three days after 1 May 2023?", "2023-05-04..2023-05-05"),
        ("Who came a month before May 4th, 2023?", "2023-04-01..2023-05-01"),
        ("Who came 10 years before 2022?", "2012-01-01..2013-01-01"),
        ("Who came two weeks after May 2023?", "2023-06-12..2023-06-19"),
        ("Who came two days before last weekend?", "2023-11-09..2023-11-10"),
        ("Who came a week after last May?", "2023-06-05..2023-06-12"),
        ("Who came a day after yesterday?", "2023-11-15..2023-11-16"),
        ("Who came the day before 2023?", "2022-12-31..2023-01-01"),
        ("And in the two weeks after 1 May 2023?", "2023-05-02..2023-05-16"),
        ("And within two weeks after 1 May 2023?", "2023-05-02..2023-05-16"),
        ("And in the first week after 1 May 2023?", "2023-05-02..2023-05-09"),
        # without a distance
        ("Who came weeks after 1 May 2023?", "2023-05-02..2023-11-16"),
        ("Who slept the day after, on 1 May 2023?", "2023-05-01..2023-05-02"),
        ("Who spent two weeks abroad before 1 May 2023?", "..2023-05-01"),
        # of the future, the next
        ("What is planned on Saturday?", "2023-11-18..2023-11-19"),
        ("What are we doing this weekend?", "2023-11-18..2023-11-20"),
        ("Do I have anything on Tuesday?", "2023-11-21..2023-11-22"),
        ("Who will come on the 3rd?", "2023-12-03..2023-12-04"),
        ("What's on Friday?", "2023-11-17..2023-11-18"),
        ("Is Sven free on Saturday?", "2023-11-18..2023-11-19"),
        ("Is there anything on the 3rd?", "2023-12-03..2023-12-04"),
        ("What is due by Friday?", "..2023-11-18"),
        ("What's on in the next two weeks?", "2023-11-15..2023-11-30"),
        ("What is happening in two weeks?", "2023-11-27..2023-12-04"),
        ("What do I have a week from Friday?", "2023-11-24..2023-11-25"),
        ("Where are we going this Christmas?", "2023-12-24..2023-12-27"),
        ("Where will we be in May?", "2024-05-01..2024-06-01"),
        ("What is planned for later this week?", "2023-11-15T10:30..2023-11-20"),
        ("Where is she going on Monday of next week?", "2023-11-20..2023-11-21"),
    ],
)
def test_question_names_its_time(question: str, period: str) -> None:
    assert read(question) == [period]


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("I have a dentist appointment tomorrow.", "2023-11-16..2023-11-17"),
        ("Dentist is on Thursday at half past three.", "2023-11-16..2023-11-17"),
        ("The boiler man can come next Wednesday.", "2023-11-22..2023-11-23"),
        ("The operation has been set for the twenty-third.", "2023-11-23..2023-11-24"),
        ("They need the bed, it's the first of December now.", "2023-12-01..2023-12-02"),
        ("The office rang. It's now Tuesday the twenty-first at nine.", "2023-11-21..2023-11-22"),
        ("The landlord called, the rent goes up to 940 from January.", "2024-01-01..2024-02-01"),
        ("Booked the ferry, leaving on the ninth of May.", "2024-05-09..2024-05-10"),
        ("Pieter wants to come over on Friday evening.", "2023-11-17T17:00..2023-11-18"),
        ("I will be back in three days.", "2023-11-18..2023-11-19"),
        ("Noted: dentist on Thursday at 15:30.", "2023-11-16..2023-11-17"),
        ("On Friday we went to the zoo.", "2023-11-10..2023-11-11"),
        ("On Friday, we went to the zoo.", "2023-11-10..2023-11-11"),
        ("Yesterday I bought a coat, 120 down from 200.", "2023-11-14..2023-11-15"),
        ("We cycled along the Danube last summer.", "2023-06-01..2023-09-01"),
        ("He was born on 5 June 1987.", "1987-06-05..1987-06-06"),
        ("We moved to Lisbon in May.", "2023-05-01..2023-06-01"),
        ("The course is booked for May.", "2024-05-01..2024-06-01"),
        ("They moved the dentist to Friday.", "2023-11-17..2023-11-18"),
        ("They lost a truck. They come on the twenty-third now.", "2023-11-23..2023-11-24"),
        ("On the 30th they'll switch the water off.", "2023-11-30..2023-12-01"),
        ("I'm in Rome from the 3rd to the 9th of May.", "2024-05-03..2024-05-10"),
        ("The party is on Friday 24th.", "2023-11-24..2023-11-25"),
        ("I will be away the week after next.", "2023-11-27..2023-12-04"),
        ("The form is due by Friday.", "2023-11-17..2023-11-18"),
        ("I may stay until the twenty-fifth.", "2023-11-25..2023-11-26"),
        ("My shift on Sunday starts at six.", "2023-11-19..2023-11-20"),
        ("Bea quit, her last day is the 27th.", "2023-11-27..2023-11-28"),
        ("Her birthday is the 3rd.", "2023-12-03..2023-12-04"),
        ("You're in luck. The 17th, six guests.", "2023-11-17..2023-11-18"),
        ("Make it the 18th.", "2023-11-18..2023-11-19"),
        ("so the thirteenth then still two", "2023-12-13..2023-12-14"),
        ("Granted, the 20th, end of day.", "2023-11-20..2023-11-21"),
        ("July, the twelfth.", "2024-07-12..2024-07-13"),
        ("The recital got pushed to Friday.", "2023-11-17..2023-11-18"),
        ("The lease ends in three weeks' time.", "2023-12-04..2023-12-11"),
        ("We fly out late tomorrow night.", "2023-11-16T18:00..2023-11-17T06:00"),
        ("I'm in Bonn from Monday to Wednesday.", "2023-11-20..2023-11-23"),
        ("I was in Bonn from Monday to Friday.", "2023-11-06..2023-11-11"),
        ("We're away from the 28th to the 2nd.", "2023-11-28..2023-12-03"),
        ("The shop is closed on Friday.", "2023-11-17..2023-11-18"),
        ("The shop was closed on Friday.", "2023-11-10..2023-11-11"),
        ("The course starts on Monday week.", "2023-11-27..2023-11-28"),
        ("The vet is Friday week.", "2023-11-24..2023-11-25"),
        ("The vet is a week on Friday.", "2023-11-24..2023-11-25"),
        ("The vet is a fortnight tomorrow.", "2023-11-30..2023-12-01"),
        ("We had a week on Friday.", "2023-11-10..2023-11-11"),
        ("The vet comes in two or three weeks.", "2023-11-27..2023-12-11"),
        ("Wake me in half an hour.", "2023-11-15T11:00..2023-11-15T11:01"),
        ("The vet is on Friday noon.", "2023-11-17..2023-11-18"),
        ("See you on Sat.", "2023-11-18..2023-11-19"),
        ("They moved the vet from Monday to Tuesday.", "2023-11-21..2023-11-22"),
        ("The fair is 3-5 December.", "2023-12-03..2023-12-06"),
        ("The fair is Dec. 3rd to 5th.", "2023-12-03..2023-12-06"),
        ("I flew home 1.5 weeks ago.", "2023-10-30..2023-11-13"),
        ("Due 2026-12-01T10:00:00Z.", "2026-12-01..2026-12-02"),
    ],
)
def test_turn_speaks_of_the_days_it_names(text: str, period: str) -> None:
    assert mentioned(text) == [period]


@pytest.mark.parametrize(
    "text",
    [
        "Put the tiler on Monday, no wait, I mean Saturday.",
        "The vet is tomorrow. Sorry, I meant on Saturday.",
        "The tuner comes not on Monday but on Saturday.",
        "The dentist is on Saturday, not Monday.",
        "The dentist is on Saturday instead of Monday.",
        "On Monday, scratch that, Saturday.",
        "It is on Friday? No, on Saturday.",
        "On Monday - or rather Friday - hang on, Saturday.",
        "Book the crane for Friday, ah no, Saturday.",
        "book the hall for monday no hang on not monday saturday",
        "The vet is on Friday. Not Friday, Saturday.",
        "The farrier is coming on Friday. Er, Saturday, sorry, on Saturday.",
        "The rehearsal is on Friday. What am I saying, on Saturday.",
        "On the 22nd, oh dear, I have read the wrong line, on the 18th.",
        "The tiles are not delivered on Friday but on Saturday.",
        "the match was meant to be on friday but now it's on saturday",
    ],
)
def test_time_that_is_taken_back_is_none(text: str) -> None:
    assert mentioned(text) == ["2023-11-18..2023-11-19"]


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("Not on Monday.", 1),
        ("We swim on Monday. I'm sorry that the pool is closed on Saturday.", 2),
        ("See you on Monday, actually also on Saturday.", 2),
        ("On Monday there is no class, and on Saturday there is.", 2),
        ("On Monday they brought the wrong tiles, on Tuesday the right ones.", 2),
        ("The crane is not only here on Thursday but on Friday as well.", 2),
        ("He isn't here on Monday, but he comes on Tuesday.", 2),
        ("The shop is closed on Friday, Saturday, sorry about that.", 2),
    ],
)
def test_unrevoked_time_stays_next_to_another(text: str, times: int) -> None:
    assert len(mentioned(text)) == times


def test_hours_pass_through_a_change_of_the_clocks() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    for at in (
        datetime(2026, 3, 29, 23, 45, tzinfo=berlin),
        datetime(2026, 10, 25, 23, 45, tzinfo=berlin),
    ):
        (period,) = DATES.times("What did I do in the last 24 hours?", at).periods

        assert period.length == timedelta(hours=24)
        assert period.ends == at
        (ago,) = DATES.times("What was 24 hours ago?", at).periods
        assert ago.begins < at.astimezone(UTC) - timedelta(hours=24) < ago.ends


@pytest.mark.parametrize(
    "text",
    [
        "He's vegetarian now, since last year.",
        "The dentist was moved two days earlier.",
        "They brought the recital forward, three weeks earlier.",
        "I would like a weekend in Porto.",
        "It was some Friday or another Monday.",
        "I told him before Christmas.",
        "The rings were in his coat until Easter.",
        "I feel inspired by autumn.",
        "On Mondays we close at six.",
        "On Friday evenings I play chess.",
        "A box of vegetables comes every Thursday.",
        "We meet every other Friday, and each weekend.",
        "Rent is due on the first of every month.",
        "We live on the twenty-third floor.",
        "The 4th patient was late, and the 19th hole is a bar.",
        "The 2nd, please.",
        "She was the fourth, and I was the ninth.",
        "There's a reading group on the first Wednesday of each month.",
        "Last day at the shop. They gave me a voucher for 50 euros.",
        "My locker is number 27 and the rent is 2024 a month.",
        "It was 85 and the insurance pays half.",
        "So this is my last week at the florist.",
    ],
)
def test_turn_speaks_of_no_long_or_repeated_time(text: str) -> None:
    assert mentioned(text) == []


@pytest.mark.parametrize(
    ("question", "zone", "period"),
    [
        ("last summer", "Europe/Lisbon", "2023-06-01"),
        ("last summer", "Australia/Sydney", "2022-12-01"),
        ("last summer", "America/Sao_Paulo", "2022-12-01"),
        ("this spring", "Pacific/Auckland", "2023-09-01"),
        ("in winter", "Africa/Johannesburg", "2023-06-01"),
        ("last autumn", "America/New_York", "2022-09-01"),
    ],
)
def test_season_is_that_of_the_hemisphere(question: str, zone: str, period: str) -> None:
    now = NOW.astimezone(ZoneInfo(zone))

    (found,) = DATES.times(f"What was said {question}?", now).periods

    assert f"{found.begins.astimezone(now.tzinfo):%Y-%m-%d}" == period


@pytest.mark.parametrize(
    ("question", "alone"),
    [
        ("What happened yesterday?", True),
        ("what did I do on friday", True),
        ("What's on my calendar tomorrow?", True),
        ("What did we talk about in the last two weeks?", True),
        ("What was the first thing we talked about?", True),
        ("How was my weekend?", True),
        ("What was I up to yesterday?", True),
        ("What did we do back in July?", True),
        ("What have I done recently?", True),
        ("Has Anna called recently?", False),
        ("How much was the weekend?", False),
        ("What did Frank report yesterday?", False),
        ("What broke last night?", False),
        ("Who is on call this month?", False),
        ("How was the weather on Friday?", False),
        ("Which dress did I buy on Friday?", False),
        ("What did I say?", False),
        ("What did I say before my birthday?", False),
    ],
)
def test_question_that_names_only_a_time_is_noticed(question: str, alone: bool) -> None:
    assert DATES.times(question, NOW).alone is alone


@pytest.mark.parametrize(
    ("question", "period", "earliest_first"),
    [
        ("What was the first thing we talked about?", "..", True),
        ("When did we first talk?", "..", True),
        ("What did I say first?", "..", True),
        ("What was the first thing I told you yesterday?", "2023-11-14..2023-11-15", True),
        ("What's the latest?", "..", False),
        ("What have I been up to lately?", "..", False),
        ("What did we most recently talk about?", "..", False),
        ("What was the last thing I told you?", "..", False),
        ("What did I tell you last?", "..", False),
    ],
)
def test_first_and_last_thing_have_all_time(
    question: str, period: str, earliest_first: bool
) -> None:
    times = DATES.times(question, NOW)

    assert (written(times.periods), times.alone) == ([period], True)
    assert times.earliest_first is earliest_first


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
        "One second please, who is it?",
        "What is the second thing on the list?",
        "On the second floor, who lives there?",
        "On the 3rd floor, who lives there?",
        "Where is the sun in the picture?",
        "Did mum fall down the stairs?",
        "What is the spring in the mattress made of?",
        "How do I march in step?",
        "Who is on the march?",
        "Who is covering whose Saturday, Nadia or Tomas?",
        "What did we change Albright's Wednesday visit to?",
        "What time is the Friday table at Osteria Lunetta?",
        "On Mondays when does the library close?",
        "Does the shop open every weekday?",
        "How many may 5 cats eat?",
        "We march 5 miles a day, why?",
        "Who may not eat at the holiday lunch?",
        "What did Mark say to April?",
        "Is June coming to dinner?",
        "Does August like his job?",
        "Who is Will and what is his last name?",
        "Which was the last straw?",
        "At the last minute, what changed?",
        "What is the next day like?",
        "How many minutes does an hour have?",
        "The fall of Rome, what about it?",
        "Was she hurt before the fall?",
        "Which day is the dentist?",
        "Who is 30 years old?",
        "How long did three weeks feel?",
        "I had a second thought, about what?",
        "What is my locker number?",
        "Is 0014 open?",
        "Is 10.12.20.26 open?",
        "What happened half a decade ago?",
        "Was the score 3-5?",
        "What is the code 2024?",
        "Which dec is it?",
        "He sat on the mat, who?",
        "She is in her twenties, who?",
        "When was the last day of school?",
        "What do I wear for spring cleaning?",
        "Which mar bar?",
        "How many days are there in a week?",
        "Who is the president in the last book?",
        "What did I say before my birthday?",
        "What happened after the wedding?",
        "How long did we march in the sun?",
        "Can you wait a second, Sunny?",
        "Which spring of the mattress broke in the fall?",
        "",
    ],
)
def test_ordinary_text_has_no_date(question: str) -> None:
    assert read(question) == []


@pytest.mark.parametrize(
    "text",
    [
        "before " * 1000 + "Monday",
        "the end of " * 1000 + "May",
        "two weeks after " * 1000 + "Friday",
        "the week of " * 1000 + "Friday",
        "the Friday after " * 1000 + "Easter",
        "from May to " * 1000,
    ],
)
def test_deep_times_end_without_an_error(text: str) -> None:
    DATES.times(text, NOW)
    DATES.mentioned(text, NOW)


def test_first_dates_are_read_in_order() -> None:
    months = ("June", "March", "May", "April", "July")
    question = ", ".join(f"in {month} 2021" for month in months)

    found = read(question)

    assert len(found) == MAX_DATES
    assert [each[:7] for each in found] == ["2021-06", "2021-03", "2021-05", "2021-04"]
    assert [each[:7] for each in mentioned(question)] == [*(each[:7] for each in found), "2021-07"]


def test_first_eight_times_of_a_turn_are_read() -> None:
    dates = [f"{day} March" for day in range(1, 20, 2)]

    found = mentioned(f"We swim on {', '.join(dates)}.")

    assert [each[8:10] for each in found] == ["01", "03", "05", "07", "09", "11", "13", "15"]


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
def test_days_are_those_of_the_zone(zone: str, question: str, begins: datetime, hours: int) -> None:
    now = datetime(2026, 3, 8, 22, tzinfo=UTC).astimezone(ZoneInfo(zone))

    (period,) = DATES.times(f"What was said {question}?", now).periods

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
def test_no_date_is_beyond_the_calendar(when: str, year: int) -> None:
    for as_of in (datetime(year, 1, 1, tzinfo=UTC), datetime(year, 12, 31, 23, tzinfo=UTC)):
        assert all(each.begins < each.ends for each in DATES.times(when, as_of).periods)


WORDS_OF_TIMES = sorted(
    BEGINNING | NAMING | FOLLOWING | {"of", "the", "2", "3rd", "2024", "5pm", "ago", ",", ".", "-"}
)


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(WORDS_OF_TIMES), max_size=12).map(" ".join)
    | st.from_regex(
        r"(the |two |9 )?(days |years )?(after |on |in |last )?"
        r"[0-9]{1,2}[./ ](may|12|feb)[./ ,]{1,2}[0-9]{1,4} ?(ago)?"
    ),
    st.datetimes(timezones=st.just(UTC)),
)
@example("In May 1944 the second attempt failed.", NOW)
def test_no_text_and_no_clock_fails_the_reader(question: str, as_of: datetime) -> None:
    reader = EnglishDates()

    for period in (*reader.times(question, as_of).periods, *reader.mentioned(question, as_of)):
        assert period.begins < period.ends
