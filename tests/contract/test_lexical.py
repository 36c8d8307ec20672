"""What every leg of words does, the one in memory and PostgreSQL's in each of its modes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.domain.questions.query import Filter, TimeRange
from serving.domain.ranking.leg_options import WordsMode, WordsSearch
from serving.ports.memory_store import Batch, MemoryStore
from serving.ports.words import LexicalSearch
from tests.fakes.store import InMemoryStore
from tests.fakes.words import InMemoryWords
from tests.support.builders import NOON, TENANT, batch_of, days, fact, ids, query, scope, segment

OTHER = TenantName("other")


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


class Stored(NamedTuple):
    store: MemoryStore
    lexical: LexicalSearch

    async def found(
        self,
        text: str,
        *,
        depth: int = 100,
        within_s: float = 10,
        in_order: bool = True,
        **of_scope: object,
    ) -> list[str]:
        """The ids of what is found, best first or by id, which no mode changes."""
        within = query(text, scope=scope(**of_scope))  # type: ignore[arg-type]
        found = {}
        for mode, (words, enough) in MODES.items():
            deadline = Deadline.after(within_s)
            candidates = await self.lexical.search(within, words, depth, enough, deadline)
            found[mode] = [candidate.item.id for candidate in candidates]
            if not in_order:
                found[mode].sort()
        assert found == dict.fromkeys(MODES, found["bm25"])
        return found["bm25"]


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def stored(request: pytest.FixtureRequest) -> Stored:
    if request.param == "memory":
        memory = InMemoryStore()
        return Stored(memory, InMemoryWords(memory))
    adapters: Postgres = request.getfixturevalue("postgres")
    return Stored(adapters.store, adapters.lexical)


async def test_only_segments_are_found_by_words(stored: Stored) -> None:
    await stored.store.write(
        batch_of(
            segment("said"),
            segment("titled", "of it", title="Goa"),
            segment("by them", "of it", speaker="Goa"),
            segment("other", "We sailed to Rome."),
            fact("f", "Ann", "likes", "Goa", sentence="Ann likes Goa."),
        )
    )

    assert await stored.found("goa", in_order=False) == ["by them", "said", "titled"]


async def test_equal_scores_are_ordered_by_id_within_depth(stored: Stored) -> None:
    await stored.store.write(batch_of(*(segment(id_) for id_ in ("d", "a", "é", "c", "B"))))

    assert await stored.found("Goa") == ["B", "a", "c", "d", "é"]
    assert await stored.found("Goa", depth=2) == ["B", "a"]


async def test_segment_after_the_clock_is_hidden(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("now"), segment("later", event_time=NOON + days(2))))

    assert await stored.found("Goa", as_of=NOON + days(1)) == ["now"]
    assert await stored.found("Goa", as_of=NOON + days(2), in_order=False) == ["later", "now"]


async def test_segment_recorded_after_known_at_is_hidden(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("first")))
    (first,) = (await stored.store.load(TENANT, ids("first"), Deadline.after(60))).values()
    await stored.store.write(batch_of(segment("second")))

    assert first.created_at is not None
    before = first.created_at - timedelta(microseconds=1)
    assert await stored.found("Goa", known_at=before) == []
    assert await stored.found("Goa", known_at=first.created_at) == ["first"]
    assert await stored.found("Goa", known_at=first.created_at + days(1)) == ["first", "second"]


async def test_update_keeps_the_record_time(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("a", "We sailed to Rome.")))
    (first,) = (await stored.store.load(TENANT, ids("a"), Deadline.after(60))).values()
    await stored.store.write(batch_of(segment("a")))

    assert await stored.found("Goa", known_at=first.created_at) == ["a"]


FILTERS = [
    (Filter(kinds=("object",)), ["b"]),
    (Filter(labels={"project": ("goa",)}), ["a", "b"]),
    (Filter(min_importance=0.6), ["c"]),
    (Filter(event_time=TimeRange(NOON + days(0.25))), ["b", "c"]),
    (Filter(created_at=TimeRange(None, NOON - days(10_000))), []),
    (Filter(speakers=("nobody",)), []),
]


async def test_filters_hold(stored: Stored) -> None:
    await stored.store.write(
        batch_of(
            segment("a", labels={"project": "goa"}),
            segment("b", labels={"project": "goa"}, kind="object", event_time=NOON + days(0.25)),
            segment("c", importance=0.9, event_time=NOON + days(0.5)),
        )
    )

    for filter_, passing in FILTERS:
        assert await stored.found("Goa", filter_=filter_) == passing, filter_


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
    await stored.store.write(
        batch_of(
            segment("bank", "The bank gave Rajesh the PIN 4711.", speaker="Rajesh", sensitive=True),
            segment("doctor", "The doctor wants Nora back.", title="Shopping", sensitive=True),
        )
    )

    for question, found in FOUND_BY_QUESTIONS.items():
        assert await stored.found(question) == found, question


async def test_tenants_do_not_see_each_other(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("mine")))
    await stored.store.write(Batch(OTHER, [segment("theirs")]))

    assert await stored.found("Goa") == ["mine"]
    assert await stored.found("Goa", tenant=OTHER) == ["theirs"]
    assert await stored.found("Goa", tenant="nobody") == []


async def test_a_passed_deadline_is_a_timeout(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("a")))

    with pytest.raises(TimeoutError):
        await stored.found("Goa", within_s=0)
