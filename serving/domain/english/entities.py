"""Entity extraction without a model: the speaker, capitalised names, and known names.

Deterministic and fast enough for bulk loads. In languages with capitals it finds a lower-case name
only if the tenant already has it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from serving.domain.items.records import MAX_ENTITIES, MAX_NAME_BYTES, Segment
from serving.domain.items.text import WORD, name_key
from serving.domain.languages import ENGLISH, FUNCTION_WORDS
from serving.domain.words.scripts import UNSPACED_RUN

MAX_KNOWN_WORDS = 5
"""The longest known name, in words, that is searched for in a text."""

MAX_UNSPACED_LETTERS = 16
"""The longest known name, in letters, that is searched for in a text without spaces."""

MAX_CONNECTORS = 2
"""The most consecutive lower-case words within a name, as in "Lord of the Rings"."""

ALL_CAPS_FROM_WORDS = 4
"""In a text of this many words or more that is mostly capitals, capitals are ignored."""

_BREAK = "\x1f"
"""Replaces a possessive, which ends a name but not a sentence."""

_SENTENCE_END = re.compile(r"[.!?…:\n\"“”()\[\]*•]")
_JOINING = frozenset({" ", "-", "&", " & ", "'", "’"})
_JOINING_ABBREVIATED = frozenset({".", ". "})
_SPACES = re.compile(r"\s+")
# What is written to a word without a space may be a part of a name: @mara, C#.
_SIGNS_BEFORE = re.compile(r"(?<!\S)[^\w\s.,;:!?…\"“”()\[\]*•'’]+\Z")
_SIGNS_AFTER = re.compile(r"[^\w\s.,;:!?…\"“”()\[\]*•'’/-]+")
_OF_THE_NAME = ("+", "#")
"""Signs that end no name which is known without them: C++ is not C."""


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
    gap: str
    """The text between the previous word and it, in the form of `name_key`."""
    before: str
    after: str
    """The signs that are written to it."""


_Found: TypeAlias = tuple[int, str]
"""The start of a name in the text, and the name."""


def entities_in(segment: Segment, known_names: Mapping[str, str]) -> tuple[str, ...]:
    """The speaker, then the distinct names in title and text, in their order.

    A known name is found by its key: written like that, but for case and white space. The known
    ones are by `name_key`, and are looked up, never scanned. The words that tell names apart are
    English, for all tenants: without words the first one of a sentence would be taken for a name.
    """
    names: dict[str, str] = {}
    if speaker := name_key(segment.speaker):
        names[speaker] = segment.speaker
    for text in (segment.title, segment.text):
        for _, name in _names_in(text, known_names) if text else ():
            if len(name.encode()) <= MAX_NAME_BYTES:
                names.setdefault(name_key(name), name)
    return tuple(names.values())[:MAX_ENTITIES]


def _names_in(text: str, known_names: Mapping[str, str]) -> list[_Found]:
    unspaced = list(_unspaced(text, known_names)) if known_names and not text.isascii() else []
    text = ENGLISH.possessive.sub(_BREAK, unicodedata.normalize("NFKC", text))
    words = list(_words(text))
    found = unspaced + (list(_known(words, known_names)) if known_names else [])
    if not _is_all_caps(text, words):
        found += _proper_names(text, words)
    return sorted(found, key=itemgetter(0))


def _words(text: str) -> Iterator[_Word]:
    end, key, opens, joined = 0, "", True, False
    for match in WORD.finditer(text):
        start, written = match.start(), match.group()
        gap = text[end:start]
        if end:
            opens, joined = _after(key, gap)
        before, after = _signs(text, end, start, match.end())
        end, key = match.end(), name_key(written)
        yield _Word(
            start, end, key, _capitalised(written), opens, joined, _folded(gap), before, after
        )


def _signs(text: str, previous: int, start: int, end: int) -> tuple[str, str]:
    """The signs before and after a word; most words have a space or a comma there."""
    before = text[start - 1 : start] not in ("", " ") and _SIGNS_BEFORE.search(
        text, previous, start
    )
    after = text[end : end + 1] not in ("", " ", ",", ".") and _SIGNS_AFTER.match(text, end)
    return before[0] if before else "", after[0].casefold() if after else ""


def _folded(gap: str) -> str:
    """A gap in the form of `name_key`; a break stays, so that no name continues over it."""
    return gap if gap == " " or _BREAK in gap else _SPACES.sub(" ", gap.casefold())


def _after(word: str, gap: str) -> tuple[bool, bool]:
    """Whether a sentence starts after the gap, and whether a name may continue over it."""
    if gap == " ":
        return False, True
    if gap in _JOINING_ABBREVIATED and (len(word) == 1 or word in ENGLISH.abbreviations):
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


def _known(words: Sequence[_Word], known_names: Mapping[str, str]) -> Iterator[_Found]:
    """The known names among the runs of words: the longest at each place, without overlaps."""
    longest: dict[int, tuple[int, str]] = {}
    for place, length, key in _known_runs(words, known_names):
        if length > 1 or _is_name(words[place]):
            longest[place] = length, key
    end = 0
    for place, (length, key) in sorted(longest.items()):
        if place >= end:
            end = place + length
            yield words[place].start, known_names[key]


def _unspaced(text: str, known_names: Mapping[str, str]) -> Iterator[_Found]:
    """The known names in text without spaces: the longest at each place, without overlaps."""
    text = unicodedata.normalize("NFC", text)
    for run in UNSPACED_RUN.finditer(text):
        place = run.start()
        while place < run.end():
            last = min(run.end(), place + MAX_UNSPACED_LETTERS)
            for end in range(last, place + 1, -1):
                name = known_names.get(text[place:end])
                if name and not unicodedata.category(text[end : end + 1] or " ").startswith("M"):
                    yield place, name
                    place = end
                    break
            else:
                place += 1


def _known_runs(
    words: Sequence[_Word], known_names: Mapping[str, str]
) -> Iterator[tuple[int, int, str]]:
    """The place, the length and the key of each run of words that is a known name, short first."""
    signs = any(word.before or word.after for word in words)
    runs = [word.key for word in words]
    for length in range(1, min(MAX_KNOWN_WORDS, len(words)) + 1):
        if length > 1:
            added = words[length - 1 :]
            runs = [
                f"{run}{word.gap}{word.key}" for run, word in zip(runs[:-1], added, strict=True)
            ]
        # Usually none is known, which this check finds fastest.
        if not signs and known_names.keys().isdisjoint(runs):
            continue
        for place, run in enumerate(runs):
            for key in _spellings(run, words[place], words[place + length - 1]):
                if key in known_names:
                    yield place, length, key
                    break


def _spellings(run: str, first: _Word, last: _Word) -> Iterator[str]:
    """The keys under which a run may be known, with the signs that are written to it first."""
    if first.before or last.after:
        yield f"{first.before}{run}{last.after}"
        if first.before:
            yield f"{run}{last.after}"
    if not last.after.startswith(_OF_THE_NAME):
        yield run


def _is_name(word: _Word) -> bool:
    """Whether a known name is used as a name: Will, but not will."""
    ordinary = word.key in ENGLISH.not_names or word.key in ENGLISH.openings
    return not ordinary or (word.capitalised and not word.opens)


# ---------------------------------------------------------------- capitals


def _proper_names(text: str, words: Sequence[_Word]) -> Iterator[_Found]:
    """The runs of capitalised words, including connectors between them."""
    within = {word.key for word in words if word.capitalised and not word.opens}
    place = 0
    while place < len(words):
        first = words[place]
        if not _starts_name(first):
            place += 1
            continue
        end = _end_of_name(words, place)
        name = text[first.start : words[end - 1].end]
        if words[end - 1].after.startswith(_OF_THE_NAME):
            name += words[end - 1].after
        if end - place > 1 or (len(name) > 1 and _named_alone(first, name, within)):
            yield first.start, name
        place = end


def _starts_name(word: _Word) -> bool:
    if not word.capitalised or word.key in ENGLISH.not_names:
        return False
    return not (word.opens and word.key in ENGLISH.openings)


def _named_alone(word: _Word, written: str, within: set[str]) -> bool:
    """Whether the capital of a single word is due to more than its place in the sentence.

    In a language whose ordinary words are known, a word that is none of them is a name.
    """
    if not word.opens or word.key in within or written[1:] != written[1:].lower():
        return True
    return not (word.key in FUNCTION_WORDS or ENGLISH.is_ordinary(word.key))


def _end_of_name(words: Sequence[_Word], place: int) -> int:
    """The end of the name that starts at a place; connectors must precede a capital."""
    end = place + 1
    ahead = end
    while ahead < len(words) and words[ahead].joined:
        word = words[ahead]
        ahead += 1
        if word.capitalised:
            if word.key in ENGLISH.not_names and word.key not in ENGLISH.calendar:
                break
            end = ahead
        elif word.key not in ENGLISH.connectors or ahead - end > MAX_CONNECTORS:
            break
    return end
