"""Entity extraction without a model: the speaker, capitalised names, and known names.

Deterministic and fast enough for bulk loads. In languages with capitals it finds a lower-case name
only if the tenant already has it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from serving.domain.items.records import Segment
from serving.domain.items.text import name_key
from serving.domain.languages import ENGLISH, Language

MAX_NAMES = 64
"""The same limit as for names given by a client."""

MAX_NAME_BYTES = 256
"""The same limit as for names given by a client."""

MAX_KNOWN_WORDS = 5
"""The longest known name, in words, that is searched for in a text."""

MAX_CONNECTORS = 2
"""The most consecutive lower-case words within a name, as in "Lord of the Rings"."""

ALL_CAPS_FROM_WORDS = 4
"""In a text of this many words or more that is mostly capitals, capitals are ignored."""

_BREAK = "\x1f"
"""Replaces a possessive, which ends a name but not a sentence."""

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?…:\n\"“”()\[\]*•]")
_JOINING = frozenset({" ", "-", "&", " & ", "'", "’"})
_JOINING_ABBREVIATED = frozenset({".", ". "})


class _Word(NamedTuple):
    """A word of a text and the properties of its spelling."""

    start: int
    end: int
    key: str
    capitalised: bool
    opens: bool
    """Whether it starts a sentence, where a capital alone is not significant."""
    joined: bool
    """Whether it may belong to the same name as the previous word."""


class _Found(NamedTuple):
    """A name, its `name_key`, and its start in the text."""

    start: int
    key: str
    name: str


class CapitalisedEntities:
    """`EntityExtractor` by capitalisation and known names.

    Args:
        language: The language of the texts.
    """

    def __init__(self, language: Language = ENGLISH) -> None:
        self._language = language

    def extract(self, segment: Segment, known_names: Mapping[str, str]) -> tuple[str, ...]:
        """The speaker, then the distinct names in title and text, in their order.

        `known_names` is looked up, never scanned.
        """
        names: dict[str, str] = {}
        if speaker := name_key(segment.speaker):
            names[speaker] = segment.speaker
        for text in (segment.title, segment.text):
            for found in _names_in(text, known_names, self._language) if text else ():
                if len(found.name.encode()) <= MAX_NAME_BYTES:
                    names.setdefault(found.key, found.name)
        return tuple(names.values())[:MAX_NAMES]


def _names_in(text: str, known_names: Mapping[str, str], language: Language) -> list[_Found]:
    text = language.possessive.sub(_BREAK, unicodedata.normalize("NFKC", text))
    words = list(_words(text, language))
    found = list(_known(words, known_names, language)) if known_names else []
    if not _is_all_caps(text, words):
        found += _proper_names(text, words, language)
    return sorted(found, key=lambda name: name.start)


def _words(text: str, language: Language) -> Iterator[_Word]:
    end, before, opens, joined = 0, "", True, False
    for match in _WORD.finditer(text):
        start, written = match.start(), match.group()
        if end:
            opens, joined = _after(before, text[end:start], language)
        end = match.end()
        before = written.casefold() if written.isascii() else name_key(written)
        yield _Word(start, end, before, _capitalised(written), opens, joined)


def _after(word: str, gap: str, language: Language) -> tuple[bool, bool]:
    """Whether a sentence starts after the gap, and whether a name may continue over it."""
    if gap == " ":
        return False, True
    if gap in _JOINING_ABBREVIATED and (len(word) == 1 or word in language.abbreviations):
        return False, True
    return _SENTENCE_END.search(gap) is not None, gap in _JOINING


def _capitalised(written: str) -> bool:
    """Whether a word has a capital, in a script with lower-case letters."""
    if written.islower() or written == written.lower():
        return False
    return written.isascii() or all(unicodedata.category(letter) != "Lo" for letter in written)


def _is_all_caps(text: str, words: Sequence[_Word]) -> bool:
    capitalised = sum(word.capitalised for word in words)
    if len(words) < ALL_CAPS_FROM_WORDS or 2 * capitalised <= len(words):
        return False
    return 2 * sum(map(str.isupper, text)) > sum(map(str.isalpha, text))


# ---------------------------------------------------------------- known names


def _known(
    words: Sequence[_Word], known_names: Mapping[str, str], language: Language
) -> Iterator[_Found]:
    """The known names among the runs of words: the longest at each place, without overlaps."""
    longest: dict[int, str] = {}
    for length in range(MAX_KNOWN_WORDS, 0, -1):
        for place, key in _known_runs(words, length, known_names, language):
            longest.setdefault(place, key)
    end = 0
    for place, key in sorted(longest.items()):
        if place >= end:
            end = place + key.count(" ") + 1
            yield _Found(words[place].start, key, known_names[key])


def _known_runs(
    words: Sequence[_Word], length: int, known_names: Mapping[str, str], language: Language
) -> Iterator[tuple[int, str]]:
    """The places where a run of `length` words is a known name, with its key."""
    keys = [word.key for word in words]
    runs = list(map(" ".join, zip(*(keys[skip:] for skip in range(length)), strict=False)))
    # Usually none is known, which this check finds fastest.
    if known_names.keys().isdisjoint(runs):
        return
    for place, run in enumerate(runs):
        if run in known_names and (length > 1 or _is_name(words[place], language)):
            yield place, run


def _is_name(word: _Word, language: Language) -> bool:
    """Whether a known name is used as a name: Will, but not will."""
    ordinary = word.key in language.not_names or word.key in language.openings
    return not ordinary or (word.capitalised and not word.opens)


# ---------------------------------------------------------------- capitals


def _proper_names(text: str, words: Sequence[_Word], language: Language) -> Iterator[_Found]:
    """The runs of capitalised words, including connectors between them."""
    within = {word.key for word in words if word.capitalised and not word.opens}
    place = 0
    while place < len(words):
        first = words[place]
        if not _starts_name(first, language):
            place += 1
            continue
        end = _end_of_name(words, place, language)
        name = text[first.start : words[end - 1].end]
        if end - place > 1 or (len(name) > 1 and _named_alone(first, name, within)):
            key = " ".join(word.key for word in words[place:end])
            yield _Found(first.start, key, name)
        place = end


def _starts_name(word: _Word, language: Language) -> bool:
    if not word.capitalised or word.key in language.not_names:
        return False
    return not (word.opens and word.key in language.openings)


def _named_alone(word: _Word, written: str, within: set[str]) -> bool:
    """Whether the capital of a single word is due to more than its place in the sentence."""
    return not word.opens or word.key in within or written[1:] != written[1:].lower()


def _end_of_name(words: Sequence[_Word], place: int, language: Language) -> int:
    """The end of the name that starts at a place; connectors must precede a capital."""
    end = place + 1
    ahead = end
    while ahead < len(words) and words[ahead].joined:
        word = words[ahead]
        ahead += 1
        if word.capitalised:
            if word.key in language.not_names and word.key not in language.calendar:
                break
            end = ahead
        elif word.key not in language.connectors or ahead - end > MAX_CONNECTORS:
            break
    return end
