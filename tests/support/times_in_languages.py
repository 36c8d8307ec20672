"""Phrases for times in ten languages, and which are read as the English for the same time is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from serving.domain.english.dates import EnglishDates
from serving.domain.items.period import Period

TABLE = Path(__file__).parents[1] / "unit" / "domain" / "english" / "times_in_languages.tsv"
PHRASES = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines()]
"""Language, phrase, and English."""

CLOCKS = [datetime(2026, 11, 26, 9, tzinfo=UTC), datetime(2024, 2, 29, 12, tzinfo=UTC)]


def readings() -> Iterator[tuple[str, str, str, bool]]:
    """Each phrase, and whether it is read right, in a turn and in a question, at each clock."""
    for language, phrase, english in PHRASES:
        wanted = [_periods(english, clock) for clock in CLOCKS]
        read = [_periods(phrase, clock) for clock in CLOCKS]
        yield language, phrase, english, all(map(any, wanted)) and read == wanted


def _periods(text: str, clock: datetime) -> list[tuple[Period, ...]]:
    dates = EnglishDates()
    return [dates.mentioned(text, clock), dates.times(text, clock).periods]
