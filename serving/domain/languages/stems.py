"""Stems, by Snowball."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import Stemmer

SIMPLE = "simple"
"""The language of a tenant whose words have no stems."""

LANGUAGE_NAMES = frozenset({SIMPLE, *Stemmer.algorithms()})
"""The languages that a tenant may have."""


@cache
def stemmer_of(language: str) -> Callable[[str], str]:
    """The stem of a word in lower case; the word itself for `SIMPLE` and unknown languages."""
    if language not in LANGUAGE_NAMES - {SIMPLE}:
        return str
    stem: Callable[[str], str] = Stemmer.Stemmer(language).stemWord
    return stem
