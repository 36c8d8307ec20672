"""What every leg of words does, the one in memory and PostgreSQL's in each of its modes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from serving.domain.budget import Deadline
from serving.domain.ranking.leg_options import WordsMode, WordsSearch
from tests.fixtures.memory_or_postgres import Stored
from tests.support.builders import fact, ids, query, scope, segment


class SearchCase(NamedTuple):
    """A mode, and how many finds are enough: one for each statement that PostgreSQL has."""

    words: WordsSearch = WordsSearch()
    enough: int = 10


MODES: Mapping[str, SearchCase] = {
    "bm25": SearchCase(),
    "any": SearchCase(WordsSearch(mode=WordsMode.ANY)),
    "all": SearchCase(WordsSearch(mode=WordsMode.ALL_THEN_ANY), enough=0),
    "all, then any": SearchCase(WordsSearch(mode=WordsMode.ALL_THEN_ANY), enough=100),
}


async def found(
    stored: Stored,
    text: str,
    *,
    depth: int = 100,
    within_s: float = 10,
    in_order: bool = True,
    **of_scope: object,
) -> list[str]:
    """The ids of what is found, best first or by id, which no mode changes."""
    within = query(text, scope=scope(**of_scope))  # type: ignore[arg-type]
    by_mode = {}
    for mode, (words, enough) in MODES.items():
        deadline = Deadline.after(within_s)
        candidates = await stored.lexical.search(within, words, depth, enough, deadline)
        by_mode[mode] = [candidate.item.id for candidate in candidates]
        if not in_order:
            by_mode[mode].sort()
    assert by_mode == dict.fromkeys(MODES, by_mode["bm25"])
    return by_mode["bm25"]


async def test_only_segments_are_found_by_words(stored: Stored) -> None:
    await stored.write(
        segment("said"),
        segment("titled", "of it", title="Goa"),
        segment("by them", "of it", speaker="Goa"),
        segment("other", "We sailed to Rome."),
        fact("f", "Ann", "likes", "Goa", sentence="Ann likes Goa."),
    )

    assert await found(stored, "goa", in_order=False) == ["by them", "said", "titled"]


async def test_equal_scores_are_ordered_by_id_within_depth(stored: Stored) -> None:
    await stored.write(*(segment(id_) for id_ in ("d", "a", "é", "c", "B")))

    assert await found(stored, "Goa") == ["B", "a", "c", "d", "é"]
    assert await found(stored, "Goa", depth=2) == ["B", "a"]


async def test_update_changes_words_and_keeps_record_time(stored: Stored) -> None:
    await stored.write(segment("a", "We sailed to Rome."))
    [first] = await stored.load(*ids("a"))
    await stored.write(segment("a"))

    assert await found(stored, "Goa", known_at=first.created_at) == ["a"]
    assert await found(stored, "Rome") == []


FOUND_BY_QUESTIONS = {
    "What does Rajesh like to eat?": [],
    "what does rajesh like?": [],
    "Was it the bank?": ["bank"],
    "What does Nora like?": [],
    "What is my PIN?": ["bank"],
    "pin": ["bank"],
    "What was it with the doctor?": ["doctor"],
    "Shopping": [],
}


async def test_sensitive_segment_needs_a_word_of_its_text(stored: Stored) -> None:
    await stored.write(
        segment("bank", "The bank gave Rajesh the PIN 4711.", speaker="Rajesh", sensitive=True),
        segment("doctor", "The doctor wants Nora back.", title="Shopping", sensitive=True),
    )

    for question, expected in FOUND_BY_QUESTIONS.items():
        assert await found(stored, question) == expected, question


async def test_foreign_name_finds_no_sensitive_segment(
    stored: Stored,
) -> None:
    await stored.write(
        segment("said", "I will call you in the morning.", speaker="Müller"),
        segment("bank", "Die Bank hat Müller die PIN 4711 gegeben.", sensitive=True),
    )

    assert await found(stored, "und was war mit müller?") == ["said"]
    assert await found(stored, "was war die pin?") == ["bank"]


async def test_a_passed_deadline_is_a_timeout(stored: Stored) -> None:
    await stored.write(segment("a"))

    with pytest.raises(TimeoutError):
        await found(stored, "Goa", within_s=0)
