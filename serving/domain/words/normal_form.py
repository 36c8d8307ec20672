"""The form of a text that words and vectors are made from. The stored text stays as it came."""

from __future__ import annotations

import re
import unicodedata

# Unicode's Default_Ignorable_Code_Point: zero-width spaces and joiners, soft hyphens, marks of
# direction, variation selectors.
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]+"
)
_FOREIGN_DIGIT = re.compile(r"[^\D0-9]")
_MIXED_NUMBER = re.compile("([0-9]+) ?([\u00bc-\u00be\u2150-\u215e])")


def normal_form(text: str) -> str:
    """NFKC, without invisible characters, and with digits of every script in ASCII.

    Full-width and Arabic-Indic digits become `40127`, and `2½` is `2.5`, of which NFKC alone makes
    a fraction with the numerator 21. Blank if the text shows nothing.
    """
    if text.isascii():
        return text
    text = _MIXED_NUMBER.sub(_decimal, _IGNORABLE.sub("", text))
    text = unicodedata.normalize("NFKC", text)
    return _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)


def _decimal(mixed: re.Match[str]) -> str:
    return f"{mixed[1]}{unicodedata.numeric(mixed[2]):.4g}".replace("0.", ".", 1)
