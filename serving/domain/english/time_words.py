"""The words of English for times."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from serving.domain.languages import ENGLISH
from serving.domain.questions.calendar import (
    Recurring,
    Unit,
    after_easter,
    day_of_year,
    nth_weekday,
    weekly,
)

_ONES = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_DECADES = "twenties thirties forties fifties sixties seventies eighties nineties"
_ORDINALS = """
first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth
fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth
"""


def _set(table: str) -> frozenset[str]:
    return frozenset(table.split())


MONTHS = {name: place for place, name in enumerate(ENGLISH.months[:12], 1)}
SHORT_MONTHS = {name[:3]: number for name, number in MONTHS.items()} | {"sept": 9}
AMBIGUOUS_MONTHS = frozenset({"may", "march", "mar"})
"""Also other words: before a number they need more to be a month."""

WEEKDAYS = {name: place for place, name in enumerate(ENGLISH.weekdays)}
SHORT_WEEKDAYS = {name[:3]: number for name, number in WEEKDAYS.items()} | {
    "tues": 1,
    "weds": 2,
    "thur": 3,
    "thurs": 3,
}

SHORTENED = SHORT_MONTHS.keys() | SHORT_WEEKDAYS.keys()
"""Words whose full stop ends no sentence."""

OWNING = frozenset({"whose", "my", "your", "his", "her", "its", "our", "their"})

ONES = {word: number for number, word in enumerate(_ONES.split())}
TENS = {word: 10 * number for number, word in enumerate(_TENS.split(), 2)}
ORDINALS = {word: number for number, word in enumerate(_ORDINALS.split(), 1)} | {"thirtieth": 30}
VAGUE_COUNTS = {"couple": (2, 2), "few": (2, 5), "several": (3, 8)}
"""Counts that are a range: "a few days ago" is two to five days ago."""

UNITS = {
    "minute": (1, Unit.MINUTE),
    "min": (1, Unit.MINUTE),
    "hour": (1, Unit.HOUR),
    "hr": (1, Unit.HOUR),
    "day": (1, Unit.DAY),
    "week": (1, Unit.WEEK),
    "wk": (1, Unit.WEEK),
    "fortnight": (2, Unit.WEEK),
    "month": (1, Unit.MONTH),
    "quarter": (3, Unit.MONTH),
    "year": (1, Unit.YEAR),
    "yr": (1, Unit.YEAR),
    "decade": (1, Unit.DECADE),
    "century": (1, Unit.CENTURY),
}

PARTS_OF_DAY = {"morning": (4, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}
"""Their hours; a night goes on to the next day."""

NORTHERN_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""Their first months north of the equator, by the calendar of meteorologists."""

DECADES = {word: 10 * number for number, word in enumerate(_DECADES.split(), 2)}

HURTING = _set("broke broken bruised died fell fractured hurt injured sprained survived")
"""Words of which one next to "the fall" makes it an accident."""

TALKING = _set(
    "chat chatted chatting how know speak spoke spoken talk talked talking think thought what"
)
"""Words after which "about" has the subject: "talk about two weeks ago"."""

VAGUE_DISTANCES = {"days": (7, Unit.DAY), "weeks": (4, Unit.WEEK), "months": (3, Unit.MONTH)}
"""The distances of "the days before" something."""

THIRDS = {
    "beginning": 0, "start": 0, "early": 0,
    "middle": 1, "mid": 1,
    "end": 2, "late": 2,
}  # fmt: skip

HOLIDAYS: Mapping[tuple[str, ...], Recurring] = {
    tuple(words.replace("'", ending).split()): recurring
    for words, recurring in (
        ("new year' eve", day_of_year(12, 31)),
        ("new year' day", day_of_year(1, 1)),
        ("new year'", day_of_year(12, 31, 2)),
        ("epiphany", day_of_year(1, 6)),
        ("valentine' day", day_of_year(2, 14)),
        ("st patrick day", day_of_year(3, 17)),
        ("shrove tuesday", after_easter(-47)),
        ("mardi gras", after_easter(-47)),
        ("ash wednesday", after_easter(-46)),
        ("palm sunday", after_easter(-7)),
        ("good friday", after_easter(-2)),
        ("easter sunday", after_easter(0)),
        ("easter monday", after_easter(1)),
        ("easter weekend", after_easter(-2, 4)),
        ("easter", after_easter(0, 2)),
        ("ascension day", after_easter(39)),
        ("pentecost", after_easter(49, 2)),
        ("whitsun", after_easter(49, 2)),
        ("may day", day_of_year(5, 1)),
        ("mother' day", nth_weekday(2, 6, 5)),
        ("father' day", nth_weekday(3, 6, 6)),
        ("independence day", day_of_year(7, 4)),
        ("fourth of july", day_of_year(7, 4)),
        ("labor day", nth_weekday(1, 0, 9)),
        ("halloween", day_of_year(10, 31)),
        ("all saints day", day_of_year(11, 1)),
        ("bonfire night", day_of_year(11, 5)),
        ("thanksgiving", nth_weekday(4, 3, 11)),
        ("black friday", nth_weekday(4, 3, 11, 1)),
        ("cyber monday", nth_weekday(4, 3, 11, 4)),
        ("christmas eve", day_of_year(12, 24)),
        ("christmas day", day_of_year(12, 25)),
        ("christmas", day_of_year(12, 24, 3)),
        ("xmas", day_of_year(12, 24, 3)),
        ("boxing day", day_of_year(12, 26)),
    )
    for ending in ("", "s")
}
"""By their words, without "'s"; an apostrophe may be an "s". The moveable ones are those of the
western churches and of the United States."""

DAYS_OF_HOLIDAYS = {
    ("easter",): after_easter(0),
    ("christmas",): day_of_year(12, 25),
    ("xmas",): day_of_year(12, 25),
    ("new", "year"): day_of_year(1, 1),
    ("new", "years"): day_of_year(1, 1),
}
"""The day of those that last longer: "the day after Christmas" is the 26th."""

HOLIDAYS_BY_FIRST_WORD = {
    first: sorted((each for each in HOLIDAYS if each[0] == first), key=len, reverse=True)
    for first in {each[0] for each in HOLIDAYS}
}
"""The longest first."""

WEEKEND = weekly(5, 2)

WITH_PLURAL = (
    {"weekend": WEEKEND}
    | {name: weekly(number) for name, number in WEEKDAYS.items()}
    | {named[0]: holiday for named, holiday in HOLIDAYS.items() if len(named) == 1}
)
"""Things that are counted, besides seasons: "two weekends ago"."""

DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
"""Their distance from today."""

WHICH = {
    "last": "last", "previous": "last", "prior": "last", "past": "past",
    "this": "this", "current": "this", "next": "next", "coming": "next", "upcoming": "next",
}  # fmt: skip
"""Words before a unit or what comes again, by those that mean the same."""

LEADING = _set(
    "after around before by during for following in into of over since through throughout till "
    "until within"
)
"""Words before a month, a season or a year, which without one of them are other words too."""

LEADING_TO_DAYS = LEADING | {"at", "between", "from", "near", "on", "prior", "than", "to"}
"""Words before "the 19th"."""

LEADING_TO_SHORT_DATES = frozenset({"after", "before", "between", "from", "on", "since", "until"})
"""Words before "24/11"; after "to" and "by" it may be a share."""

BUSY = frozenset({"been", "get", "getting", "got", "he", "i", "it", "she", "they", "we", "you"})
"""Words before an "up to" that is about what somebody does."""

FREE = frozenset({"break", "holiday", "holidays", "vacation", "vacations"})
"""Words behind a season or a holiday: "the summer holidays"."""

FOLLOWING = _set(
    """
    a about actually after afternoon again ago all already also an and any anyway anymore are around
    as at because before being both but by can can't could did didn't do does doesn't don't during
    evening everybody everyone for from had has have he her his how i if in instead is isn't it just
    last lunchtime maybe midday midnight might morning must my next night no noon nobody not now of
    on only or our perhaps please probably she should since so somebody someone still that the their
    then there these they this those though through till to today tomorrow too unless until was we
    were what when where which while who why will with won't would yesterday you your
    """
)
"""Words that can follow a time. Another word makes "the second" or "2000" belong to it."""

PRESENT = _set("am are can do does is may must should")

ASKING_WITH_BE = _set("how there what when where which who")
"""Words with "is" behind them in "what's"."""

FUTURE = _set(
    """
    'll coming due forthcoming gonna plan planned planning plans schedule scheduled shall
    tomorrow tonight upcoming will
    """
)
PAST = _set(
    """
    ago asked ate been began bought brought broke built came caught chose did drank drew drove fell
    felt flew forgot fought found gave got grew had heard held hung kept knew left lent lost made
    met paid ran rang read rode said sang sat saw sent slept sold spent spoke stole stood stuck
    swam swore taught thought threw told took wanted was went were woke won wore wrote yesterday
    """
)
ARRANGING = _set(
    """
    agreed appointed arranged booked bumped delayed due expected granted invited meant moved noted
    offered pencilled planned postponed promised pushed put rearranged rescheduled reserved
    scheduled set shifted supposed switched
    """
)
"""Verbs whose past is about the future: "booked for Friday"."""

MOVED = _set(
    "bumped changed delayed moved postponed rearranged rebooked rescheduled shifted switched"
)
"""Verbs after which "from Monday to Tuesday" is about Tuesday."""

MOVING = _set(
    """
    advanced bring brought bumped move moved pull pulled push pushed put rebooked rearranged
    rescheduled shift shifted
    """
)
"""Verbs that change when something is: "they moved it two days earlier"."""

GENERIC = _set(
    """
    agenda anything appointment appointments back bring brought calendar call called calls chat
    chatted conversation conversations day days discuss discussed event events ever everybody
    everyone everything exactly far first going happen happened happening happens hello hey hi
    i'm i've know known last lately latest learn learned line lined lot meet memories memory mention
    mentioned met midnight most new news noon notes ok okay plan planned planning plans please
    recall recap recent recently remember remind said say saying schedule scheduled something
    speak spoke spoken stuff summarise summarize summary talk talked talking tell telling thing
    things throughout time times told topic topics up we've went what's whats within you've
    """
)
"""Words that, with stop words, leave a question about nothing but its time."""

SPECIFIC = _set("how which who whom whose why")
"""Stop words that ask for one thing of a time, and not for what was then."""

NUMBER_OF_PART: Callable[[str], int | None] = {
    "first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "last": -1,
    "1st": 0, "2nd": 1, "3rd": 2, "4th": 3, "5th": 4,
}.get  # fmt: skip


NAMING = frozenset(
    {
        *MONTHS, *SHORT_MONTHS, *WEEKDAYS, *SHORT_WEEKDAYS, *NORTHERN_SEASONS, *PARTS_OF_DAY,
        *ORDINALS, *DECADES, *UNITS, *HOLIDAYS_BY_FIRST_WORD,
        "weekend", "yesterday", "today", "tonight", "tomorrow",
    }
)  # fmt: skip
"""A text without one of these, and without a number, names no time, as most do not."""

BEGINNING = frozenset(
    {
        *NAMING - PARTS_OF_DAY.keys() - UNITS.keys(), *ONES, *TENS, *VAGUE_COUNTS, *THIRDS,
        *_set(
            "a about after an around as before between by coming current day earlier from half "
            "last later near next night past previous prior since the this till until up upcoming "
            "within"
        ),
    }
)  # fmt: skip
"""The words that a time can begin with."""
