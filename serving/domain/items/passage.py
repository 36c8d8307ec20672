"""The passage of a long text that answers a question best, by its words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from serving.domain.languages import ENGLISH, stemmer_of

ELLIPSIS = "…"
STEM_CHARS = 5
"""Words that begin alike are forms of one word: repair, repaired, repairs."""

MIN_BOTH_ENDS_CHARS = 40
"""A shorter passage has room for the beginning alone."""

BEFORE_SHARE = 1 / 3
"""The share of the free characters that goes before the words that match; answers mostly follow."""

MIN_AFTER_CHARS = 24
"""The free characters that go behind them first: "the membership number is" needs the number."""

_stem = stemmer_of(ENGLISH.name)
_WORD = re.compile(r"\w+")
# Scripts without spaces between words: Thai to Khmer, kana, Han.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]{2,}")


ANSWERING_SHARE = 0.5
"""The share of a question's words in one place of a text from which they tell where the answer is,
rather than what was found by its meaning."""

_PART = re.compile(r"part (\d+) of (\d+)")


class Part(NamedTuple):
    """A part of a text, of several of one length, from 1; the last may be shorter."""

    number: int
    total: int

    def __str__(self) -> str:
        return f"part {self.number} of {self.total}"

    def of(self, length: int) -> tuple[int, int]:
        """Its first character and the one behind it, about."""
        each = length / (self.total - 0.5)
        return round((self.number - 1) * each), min(length, round(self.number * each))


def part_named(path: str) -> Part | None:
    """The part that a path names."""
    named = _PART.fullmatch(path)
    return named and Part(int(named[1]), int(named[2]))


class _Match(NamedTuple):
    start: int
    end: int
    text: str

    @property
    def key(self) -> str:
        """The common key of the forms of a word."""
        return _stem(self.text)[:STEM_CHARS]


def passage(text: str, question: str, length: int, part: Part | None = None) -> str:
    """The passage of a text with the most words of a question, at most `length` characters.

    What is left out is marked by an ellipsis. Where few words of the question are in one place, the
    `part` is shown in which the text was found by its meaning. Without it, a text that has no word
    of the question is shown by its beginning and its end, as either may answer it. Of several
    places with the same words the first is shown. Stop words of the question are ignored.
    """
    if len(text) <= length:
        return text
    asked = {word.key for word in _words(question) if word.text not in ENGLISH.stop_words}
    matches = [word for word in _words(text) if word.key in asked]
    room = max(1, length - 2 * len(ELLIPSIS))
    if part is not None and not _answer(matches, asked, room):
        start, end = part.of(len(text))
        within = [match for match in matches if start <= match.start and match.end <= end]
        matches = within if end - start > room else []
        if not matches:
            start = max(0, (start + end - room) // 2)
            return _cut(text, start, min(len(text), start + room))[:length]
    if not matches:
        return _ends(text, length)
    start, end = _best_window(matches, room)
    free = room - (end - start)
    start = max(0, start - int(max(0, free - MIN_AFTER_CHARS) * BEFORE_SHARE))
    end = min(len(text), start + room)
    start = max(0, end - room)
    return _cut(text, start, end)[:length]


def _answer(matches: Sequence[_Match], asked: Collection[str], room: int) -> bool:
    """Whether matches that fit together have enough of the question's words."""
    if not matches:
        return False
    start, end = _best_window(matches, room)
    found = {match.key for match in matches if start <= match.start and match.end <= end}
    return len(found) >= ANSWERING_SHARE * len(asked)


def _words(text: str) -> Iterator[_Match]:
    """The words of a text; of a script without spaces, each two characters."""
    for word in _WORD.finditer(text):
        unspaced = list(_UNSPACED.finditer(text, *word.span()))
        for run in unspaced:
            for at in range(run.start(), run.end() - 1):
                yield _Match(at, at + 2, text[at : at + 2])
        if not unspaced:
            yield _Match(*word.span(), unicodedata.normalize("NFKC", word.group()).casefold())


def _best_window(matches: Sequence[_Match], room: int) -> tuple[int, int]:
    """The start and the end of the matches that fit together and tell most.

    A word that the text has often tells little of where the answer is: it counts the less, the
    more often it comes.
    """
    often = Counter(match.key for match in matches)
    best, window = 0.0, (matches[0].start, min(matches[0].end, matches[0].start + room))
    within: Counter[str] = Counter()
    last = 0
    for first, match in enumerate(matches):
        while last < len(matches) and matches[last].end - match.start <= room:
            within[matches[last].key] += 1
            last += 1
        if last == first:  # a word longer than the window
            last += 1
            continue
        worth = sum(1 / often[key] for key, count in within.items() if count)
        if worth > best:
            best, window = worth, (match.start, matches[last - 1].end)
        within[match.key] -= 1
    return window


def _ends(text: str, length: int) -> str:
    if length < MIN_BOTH_ENDS_CHARS:
        return _cut(text, 0, max(1, length - len(ELLIPSIS)))[:length]
    half = (length - len(f" {ELLIPSIS} ")) // 2
    head = _cut(text, 0, half).removesuffix(ELLIPSIS)
    tail = _cut(text, len(text) - half, len(text)).removeprefix(ELLIPSIS)
    return f"{head} {ELLIPSIS} {tail}"


def _cut(text: str, start: int, end: int) -> str:
    """The text between two places, at the ends of words, with an ellipsis where some is left out.

    A word longer than the passage is cut.
    """
    if start > 0 and _within_word(text, start):
        blank = text.find(" ", start, end)
        start = blank + 1 if blank >= 0 else start
    if end < len(text) and _within_word(text, end):
        blank = text.rfind(" ", start, end)
        end = blank if blank > start else end
    shown = text[start:end].strip()
    return f"{ELLIPSIS if start > 0 else ''}{shown}{ELLIPSIS if end < len(text) else ''}"


def _within_word(text: str, place: int) -> bool:
    return not text[place - 1].isspace() and not text[place].isspace()
