r"""Codes and numbers: each has the spellings that share a token with another way to write it.

`MER-0014` has `mer`, `0014` and `mer0014`, and so has a token of "mer 0014", of "MER0014" and of
"0014". `0171-555-0142` has `01715550142`, and its last digits. Groups that each have letters and
digits, as those of a postcode, are also one code: `SW1A 2AA` has `sw1a2aa`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from serving.domain.words.scripts import MARKS

MAX_PARTS = 4
"""A word with more runs of letters and digits, such as a hash, is not split at them."""

MIN_NUMBER = 6
"""Groups of digits with fewer in total that are apart by blanks are several numbers."""
MAX_NUMBER = 34
"""Groups with more are a list: the longest IBAN has 34."""

MIN_PHONE = 7
TAILS = (10, 7, 4)
"""The last digits by which a long number is found: without its country, without its area, and as
people name it. Phones compare seven."""

MIN_GROUPED = 14
"""A longer code is also found by its groups of four, in which IBANs and cards are written."""
_GROUP = 4

# Each begins with a set of characters, which a search skips to, and looks back from there.
_DIGIT = re.compile("[0-9]")
_JOINT = re.compile(r"[-./:](?=\w)")
_COMPOUND = re.compile(rf"[\w{MARKS}]++(?:[-./:][\w{MARKS}]++)+")
RANKS = ("st", "nd", "rd", "th")
"""The endings of ordinals, which say nothing of what has one."""
_DECADE = re.compile("[12][0-9]{2}0s")
_PART = re.compile("[0-9]+|[^0-9]+")
_IN_THOUSANDS = re.compile(
    r"[0-9](?<![\w.,'’][0-9])[0-9]{0,2}(?P<by>[.,'’])[0-9]{3}(?:(?P=by)[0-9]{3})*"
    r"(?:(?!(?P=by))[.,][0-9]{1,2})?(?![0-9]|[.,'’][0-9])"
)
_FRACTION = re.compile(r"[.,]([0-9]{1,2})\Z")
_NUMBER = re.compile(r"[0-9](?<![0-9][0-9])[0-9]*(?:[ \-./()+]{1,3}[0-9]+)+(?!\w)")
_MIXED = r"(?=[0-9]*[a-z])(?=[a-z]*[0-9])[0-9a-z]{2,8}(?!\w)"
_GROUPS = re.compile(rf"(?<!\w){_MIXED}(?: {_MIXED})+")
_COUNTRY_OF_IBAN = re.compile(r"(?<!\w)[a-z]{2}\Z")
_AMOUNT = re.compile(
    r"[0-9](?<![\w.,][0-9])(?<![0-9] [0-9])"
    r"(?:[0-9]{0,2}(?: [0-9]{3})+(?:[.,][0-9]{1,2})?|[0-9]*[.,][0-9]{1,2})"
    r"(?![0-9]|[ .,][0-9])"
)
_ROMAN = re.compile(r"(?<=\w )[IVX]{2,6}(?!\w)")
_VALUES = {"I": 1, "V": 5, "X": 10}
_NO_DIGIT_OR_LETTER = re.compile(r"[\W_]+")


def has_codes(text: str) -> bool:
    """Whether a text has digits, or words that are joined by a hyphen or the like."""
    return (_DIGIT.search(text) or _JOINT.search(text)) is not None


def has_digit(word: str) -> bool:
    """Whether a word has a digit."""
    return _DIGIT.search(word) is not None


def without_grouping(text: str) -> str:
    """Writes amounts without marks of thousands: `1,250.00` and `1.250,00` as `1250.00`."""
    return _IN_THOUSANDS.sub(lambda amount: _plain(amount[0]), text)


def _plain(amount: str) -> str:
    """An amount with no mark but a decimal point."""
    fraction = _FRACTION.search(amount)
    whole = _joined(amount[: fraction.start()] if fraction else amount)
    return f"{whole}.{fraction[1]}" if fraction else whole


def codes_in(text: str) -> Iterator[tuple[int, str]]:
    """The codes that go over several words of a text, each with its start, written together."""
    end = 0
    for joint in _JOINT.finditer(text):
        if joint.start() >= end:
            start = text.rfind(" ", end, joint.start()) + 1 or end
            end = text.find(" ", joint.start())
            end = len(text) if end < 0 else end
            for found in _COMPOUND.finditer(text, start, end):
                for code in _compounds(found[0]):
                    yield found.start(), code
    for found in _NUMBER.finditer(text):
        start, digits = found.start(), _joined(found[0])
        country = _COUNTRY_OF_IBAN.search(text, start - 2, start) if start > 1 else None
        if MIN_NUMBER <= len(digits) <= MAX_NUMBER:
            yield start, (country[0] if country else "") + digits
    for found in _GROUPS.finditer(text):
        code = _joined(found[0])
        if len(code) <= MAX_NUMBER:
            yield found.start(), code
    for found in _AMOUNT.finditer(text):
        whole, _, fraction = _plain(found[0]).partition(".")
        fraction = fraction.rstrip("0")
        yield found.start(), whole
        if fraction:
            yield found.start(), f"{whole}.{fraction}"


def roman_numerals(text: str) -> Iterator[tuple[int, str]]:
    """The numbers and ordinals of numerals such as "IV" behind another word, with their starts.

    One letter is none ("Am I"), nor is anything in a text of capitals.
    """
    if text.isupper():
        return
    for found in _ROMAN.finditer(text):
        values = [_VALUES[letter] for letter in found[0]]
        pairs = zip(values, [*values[1:], 0], strict=True)
        number = sum(-value if value < after else value for value, after in pairs)
        last = number % 10 if number // 10 != 1 else 0
        yield found.start(), f"{number}{RANKS[last - 1] if 0 < last < 4 else 'th'}"


def _compounds(text: str) -> Iterator[str]:
    """The codes of words that are joined: `a-1/b-2` has two, `25/11/2026` and `14:30` are one.

    Names of hosts and files are none, but for one of single letters: `U.S.A.` is `usa`.
    """
    if not any(map(str.isalpha, text)):
        yield _joined(text)
        return
    for piece in re.split("[/:]", text):
        parts = re.split("[-.]", piece)
        named = "." in piece and not any(map(str.isdigit, piece))
        if len(parts) > 1 and not (named and max(map(len, parts)) > 1):
            yield "".join(parts)


def spellings(word: str) -> list[str]:
    """A word, and if it is a code the parts by which it may be asked for.

    It is written together; an amount may have a decimal point, and a time of day a colon.
    """
    if not _DIGIT.search(word) or "." in word or ":" in word:
        return [word]
    found = [word]
    parts = _PART.findall(word)
    if parts[-1] in RANKS:
        return [word, parts[0]]
    if _DECADE.fullmatch(word):
        found.append(word[2:])
    if 1 < len(parts) <= MAX_PARTS:
        found += parts
    last = parts[-1]
    if len(last) >= MIN_PHONE and last.isdigit():
        found += [last[-tail:] for tail in TAILS]
    if len(word) >= MIN_GROUPED:
        found += [word[at : at + _GROUP] for at in range(0, len(word), _GROUP)]
    return found


def _joined(text: str) -> str:
    return _NO_DIGIT_OR_LETTER.sub("", text)
