"""Times in English questions and turns: `time_grammar` reads them, this gives instants."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from importlib import resources
from itertools import islice
from typing import NamedTuple

from serving.domain.english import time_words as words
from serving.domain.english.tense import Tense
from serving.domain.english.time_grammar import Sentence
from serving.domain.english.time_tokens import sentences
from serving.domain.english.time_translation import in_english
from serving.domain.items.period import MAX_MENTION, Period
from serving.domain.languages import ENGLISH
from serving.domain.questions.calendar import FIRST, LAST
from serving.domain.questions.named_times import NamedTimes

MAX_DATES = 4
"""The times read of a question."""

MAX_MENTIONS = 8
"""The times read of a turn."""

MAX_CHARACTERS = 2000
"""The beginning of a text that is read, so that long notes take no longer than turns."""

_MARGIN = timedelta(days=36525)
"""To the ends of Python's calendar, near which no time is read."""

_NAMING = frozenset(word + ending for word in words.NAMING for ending in ("", "s", "es"))
_WORD_OR_DIGIT = re.compile(r"[^\W\d_]+|\d")

_SUBJECT = "(?:things?|topics?|conversation|chat|call)"
_TALKED = "(?:talk(?:ed)?|spoke|speak|chat(?:ted)?|met|meet)"
_EARLIEST = re.compile(
    rf"""\b first\s+(?: {_SUBJECT} | time\s+(?:that\s+)?we\s+{_TALKED} ) \b
      | \b we\s+(?:ever\s+)?first\s+(?:ever\s+)?{_TALKED}\b | (?<!the\s)\b first\W*$""",
    re.IGNORECASE | re.VERBOSE,
)
_LATEST = re.compile(
    rf"""\b most\s+recent(?:ly)?\b | \b (?:(?<!the\s)last|lately|recently|the\s+latest)\W*$
      | \b (?:last|latest)\s+(?: {_SUBJECT} | time(?:\s+(?:that\s+)?we\s+{_TALKED})? ) \b
      | \b we\s+last\s+{_TALKED}\b""",
    re.IGNORECASE | re.VERBOSE,
)
_HOW_WAS = re.compile(r"\bhow\s+(?:was|were)\b", re.IGNORECASE)
_EXTREME = re.compile(f"{_EARLIEST.pattern}|{_LATEST.pattern}", re.IGNORECASE | re.VERBOSE)
_EVERYTHING = Period(FIRST.replace(tzinfo=UTC), LAST.replace(tzinfo=UTC))


_DENIED = re.compile(
    r"""\b(?:no\s+longer|not|instead\s+of|rather\s+than)
        (?:\s+(?:at|for|in|on|the|this|until))*\s*\Z""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words before a time that is not meant."""

_NOT_BUT = re.compile(
    r"""(?: \b(?:not|\w+n['’]t)\b (?!\s+(?:just|only|merely)\b) (?:\W+\w+){0,4}
          | \b(?:was|were)\b (?:\W+\w+)? \W+ (?:booked|due|meant|planned|scheduled|supposed)
            \b (?:\W+\w+){0,4} ) \W*\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_BUT = re.compile(
    r"\W*but\b(?:\W+(?:at|for|in|is|it|it['’]s|now|on|only|the)\b)*\W*", re.IGNORECASE
)
"""Words before a denied time, and between it and its replacement: "not on Monday but"."""

_MISTAKE = re.compile(
    r"""\bwhat\s+am\s+i\s+(?:on\s+about|saying|talking\s+about)
      | \b(?:which|that)(?:['’]s|\s+is)\s+wrong
      | \bi(?:['’]ve|\s+have)?\s+(?:got|had|read|said|wrote)\W+(?:\w+\W+){1,3}?wrong(?:\s+\w+)?""",
    re.IGNORECASE | re.VERBOSE,
)
_SCRATCH_THAT = "scratch that"
"""Stands for other words for a mistake, whose verbs say nothing of the times."""

_TAKEN_BACK = re.compile(
    r"""(?: \bi\s+(?:mean|meant|lied|misspoke|was\s+wrong) | \bscratch\s+that | \bor\s+rather
      | \bno[,\s]+(?:hang|hold)\s+on | \bno[,\s]+(?:sorry|wait)
      | [,.;!?\u2013\u2014-]\s*(?:(?:ah|er+|oh|or|oops|uh|um|well)\W+)*
        (?:no|nope|actually|correction|make\s+(?:it|that)|my\s+mistake|oops|sorry|wait|h[ao]\w+\s+on)
      ) \b (?!.*\b(?:also|as\s+well|too)\b) (?:\W+\w+){0,4} \W*\Z""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words between a time that is taken back and its replacement."""

_PUT_RIGHT = re.compile(
    r"\W*(?:(?:sorry|my\s+mistake|rather)\b(?!\W+(?:about|for|that|to)\b)|i\s+meant?\W*\Z)",
    re.IGNORECASE,
)
"""Words after a time that replaces the one before it: "Friday, Saturday, sorry"."""

_HESITATION = re.compile(r"(?:\W+(?:ah|at|er+|for|in|on|the|uh|um)\b)*\W*", re.IGNORECASE)


class EnglishDates:
    """Reads times in English, and in the languages that `time_translation` knows.

    Days are those of the zone of `as_of`, and so is the hemisphere of a season; an offset without a
    place counts as northern. In a question, a date without a year, or a day of the week, is the
    latest one, unless its verb is about the future; in a turn it is the next one, unless its verb
    is about the past. "Two weeks after" a date is the week at that distance from its last day, as
    "two weeks ago" is the week at that distance from today; "the two weeks after" are all of their
    days. "Before" a time is all of the time before it. Vague times ("recently") and times relative
    to events ("a week after the wedding", "before my birthday") are ignored.
    """

    def times(self, question: str, as_of: datetime) -> NamedTimes:
        """Returns the times that a question names, relative to `as_of`, in order."""
        question = in_english(question)
        asks_extreme = _EXTREME.search(question) is not None
        if not asks_extreme and not _may_name_time(question):
            return NamedTimes()
        found = list(islice(_found(question, as_of, Tense.PAST), MAX_DATES))
        alone = _is_generic(question, [each.place for each in found])
        periods = tuple(each.period for each in _meant(question, found))
        if alone and not periods and asks_extreme:
            periods = (_EVERYTHING,)
        alone = alone and bool(periods)
        return NamedTimes(periods, alone, alone and _EARLIEST.search(question) is not None)

    def mentioned(self, text: str, said_at: datetime) -> tuple[Period, ...]:
        """Returns the first `MAX_MENTIONS` times that a turn speaks of, in order; no long ones."""
        text = _MISTAKE.sub(
            lambda mistake: _SCRATCH_THAT.ljust(len(mistake[0])), in_english(text[:MAX_CHARACTERS])
        )
        if not _may_name_time(text):
            return ()
        found = list(islice(_found(text, said_at, Tense.FUTURE), MAX_MENTIONS))
        meant = (each for each in _meant(text, found) if each.period.length <= MAX_MENTION)
        return tuple(each.period for each in meant)


class _Found(NamedTuple):
    """A period, and the characters that name it."""

    period: Period
    place: slice


def _may_name_time(text: str) -> bool:
    """Whether a text has a number or a word without which it names no time."""
    return any(word in _NAMING or word.isdigit() for word in _WORD_OR_DIGIT.findall(text.lower()))


def _found(text: str, as_of: datetime, usual: Tense) -> Iterator[_Found]:
    zone = as_of.tzinfo or UTC
    now = as_of.replace(tzinfo=None)
    if not FIRST + _MARGIN < now < LAST - _MARGIN:
        return
    read = text[:MAX_CHARACTERS]
    for tokens in sentences(read):
        # Most sentences of a turn that names a time name none, and the grammar is slow.
        if not tokens or not _may_name_time(read[tokens[0].place.start : tokens[-1].place.stop]):
            continue
        sentence = Sentence(
            tokens, now, usual, zone, southern=getattr(zone, "key", "") in _southern_zones()
        )
        for span, first, behind in sentence.times():
            begins, ends = _instant(span.begins, zone), _instant(span.ends, zone)
            if begins < ends:
                place = slice(tokens[first].place.start, tokens[behind - 1].place.stop)
                yield _Found(Period(begins, ends), place)


def _meant(text: str, found: Sequence[_Found]) -> Iterator[_Found]:
    """The times that a turn does not take back, or all if it is for none: "Monday, no, Tuesday".

    What it denies it does not mean elsewhere either: "on Sunday, no, not Sunday, Monday".
    """
    ends = [*(each.place.start for each in found[1:]), len(text)]
    starts = [0, *(each.place.stop for each in found)]
    within = list(zip(found, starts, ends, strict=False))
    denied = {
        each.period for each, start, _ in within if _DENIED.search(text, start, each.place.start)
    }
    meant = [
        each
        for place, (each, start, end) in enumerate(within)
        if each.period not in denied
        and (end == len(text) or not _is_replaced(text, each, start, found[place + 1]))
    ]
    yield from meant or found


def _is_replaced(text: str, time: _Found, start: int, later: _Found) -> bool:
    """Whether the next time of a text stands in the place of this one, which `start` precedes."""
    between = (time.place.stop, later.place.start)
    if _TAKEN_BACK.search(text, *between) is not None:
        return True
    if _HESITATION.fullmatch(text, *between) and _PUT_RIGHT.match(text, later.place.stop):
        return True
    return bool(_BUT.fullmatch(text, *between) and _NOT_BUT.search(text, start, time.place.start))


def _instant(local: datetime, zone: tzinfo) -> datetime:
    try:
        return local.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:
        return local.replace(tzinfo=UTC)  # the first or the last day of Python's calendar


def _is_generic(question: str, places: Sequence[slice]) -> bool:
    """Whether a question asks about nothing but its times."""
    asks_how = _HOW_WAS.search(question) is not None
    read = {character for place in places for character in range(place.start, place.stop)}
    return all(
        token.place.start in read
        or token.kind == "other"
        or token.text in words.GENERIC
        or (token.text in ENGLISH.stop_words and token.text not in words.SPECIFIC)
        or (token.text == "how" and asks_how)
        for tokens in sentences(question)
        for token in tokens
    )


@cache
def _southern_zones() -> frozenset[str]:
    """The zones whose place is south of the equator: the second column has its latitude."""
    table = (resources.files("tzdata.zoneinfo") / "zone.tab").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in table.splitlines() if not line.startswith("#")]
    return frozenset(row[2] for row in rows if row[1].startswith("-"))
