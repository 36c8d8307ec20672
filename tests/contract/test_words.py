"""What every leg of words and every resolver of names does, in memory and in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

import pytest

from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName, segment_id
from serving.domain.questions.query import NO_FILTER, Exclusion, Filter, TimeRange
from serving.domain.ranking.leg_options import WordsMode, WordsSearch
from tests.contract.test_reads import show
from tests.fixtures.memory_or_postgres import Stored
from tests.support.builders import NOON, OTHER, TENANT, days, fact, ids, query, scope, segment

# So that the tests notice a statement without its tenant.
pytestmark = pytest.mark.without_row_security


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


async def shown(stored: Stored, **of_scope: object) -> str:
    """The ids of what is found in the scope, by words that all have and by their times."""
    of, deadline = scope(**of_scope), Deadline.after(60)  # type: ignore[arg-type]
    found = {"accesses": await stored.access.recently_accessed(of, 100, deadline)}
    found["times"] = [each.item for each in await stored.timeline.latest(of, 100, deadline)]
    for mode, (words, enough) in MODES.items():
        hits = await stored.lexical.search(query("Goa", scope=of), words, 100, enough, deadline)
        found[mode] = [each.item for each in hits]
    by_name = {by: " ".join(sorted(item.id for item in items)) for by, items in found.items()}
    assert by_name == dict.fromkeys(found, by_name["times"])
    return by_name["times"]


FILTERS = [
    (NO_FILTER, "a b c"),
    (Filter(kinds=("note",)), "b"),
    (Filter(kinds=("note", "turn")), "a b c"),
    (Filter(speakers=("ANN",)), "a"),
    (Filter(sessions=("monday", "sunday")), "a b"),
    (Filter(entities=("mary  ann",)), "b c"),
    (Filter(entities=("mary-ann",)), ""),
    (Filter(labels={"project": ("goa",), "stage": ("one", "two")}), "a"),
    (Filter(labels={"project": ("goa",)}), "a b"),
    (Filter(min_importance=0.6), "c"),
    (Filter(event_time=TimeRange(NOON, NOON + days(1))), "a b"),
    (Filter(event_time=TimeRange(NOON + days(1), None)), "c"),
    (Filter(event_time=TimeRange(None, NOON)), ""),
    (Filter(created_at=TimeRange(None, NOON)), ""),
    (Filter(updated_at=TimeRange(NOON, None)), "a b c"),
    (Filter(kinds=("turn",), sessions=("sunday",)), ""),
    (Filter(none_of=Exclusion(kinds=("note",))), "a c"),
    (Filter(none_of=Exclusion(speakers=("ANN",), sessions=("sunday",))), "c"),
    (Filter(none_of=Exclusion(ids=("a", "c"), fact_ids=("b",))), "b"),
    (Filter(labels={"stage": True}), "a"),
    (Filter(labels={"stage": False}), "b c"),
    (Filter(any_of=(Filter(kinds=("note",)), Filter(min_importance=0.6))), "b c"),
    (Filter(all_of=(Filter(labels={"project": ("goa",)}), Filter(kinds=("turn",)))), "a"),
    (Filter(none_of=Exclusion(filters=(Filter(sessions=("monday", "sunday")),))), "c"),
]


async def test_filters_hold(stored: Stored) -> None:
    goa = {"project": "goa"}
    ann = segment("a", speaker="Ann", session="monday", labels={**goa, "stage": "one"})
    note = segment("b", kind="note", session="sunday", labels=goa, entities=("MARY Ann",))
    later = segment("c", importance=0.6, event_time=NOON + days(1), entity="Mary Ann")
    await stored.write(ann, note, later)
    await show(stored, note.item)

    for filter_, passing in FILTERS:
        listed = await stored.catalog.list_segments(TENANT, filter_, "", 100)
        assert " ".join(each.id for each in listed) == passing, filter_
        assert await shown(stored, filter_=filter_) == passing, filter_


async def test_segment_after_the_clock_is_hidden(stored: Stored) -> None:
    await stored.write(*(segment(name, event_time=NOON + days(2)) for name in ("later", "seen")))
    await stored.write(segment("now"))
    await show(stored, *ids("seen"))

    assert await shown(stored, as_of=NOON + days(1)) == "now"
    assert await shown(stored, as_of=NOON + days(2)) == "later now seen"


async def test_segment_recorded_after_known_at_is_hidden(stored: Stored) -> None:
    await stored.write(segment("a"))
    [first] = await stored.load(*ids("a"))
    await stored.write(segment("b"), segment("c"))
    await show(stored, *ids("a", "b"))

    assert first.created_at is not None
    assert await shown(stored, known_at=first.created_at - timedelta(microseconds=1)) == ""
    assert await shown(stored, known_at=first.created_at) == "a"
    assert await shown(stored, known_at=first.created_at + days(1)) == "a b c"


async def test_tenants_do_not_see_each_other(stored: Stored) -> None:
    await stored.write(segment("mine"), segment("a"))
    await stored.write(segment("theirs"), segment("a"), tenant=OTHER)
    await show(stored, *ids("a"))

    assert await shown(stored) == "a mine"
    assert await shown(stored, tenant=OTHER) == "a theirs"
    assert await shown(stored, tenant="nobody") == ""


async def meant(stored: Stored, words: str, tenant: TenantName = TENANT) -> dict[str, str]:
    return dict(await stored.names.meant(tenant, words.split(), Deadline.after(60)))


HELLO = ("Hello.", "Bella, Joanna, Mark")
MEANT = {
    "equal sound": (
        "We sail.",
        "Melanie, Lake Garda",
        "When did Melony sail on Gahrda",
        "Melony=Melanie Gahrda=Garda",
    ),
    "stored word": ("A melony taste.", "Melanie", "Melony", ""),
    "word that every text has": ("The end.", "Theo", "the", ""),
    "ordinary words": (*HELLO, "bill join market melony", ""),
    "ordinary word with a capital": (*HELLO, "Bill", "Bill=Bella"),
    "word that is two": (
        "Some ice cream for the dog sitter. The sauce pan is hot.",
        "Melanie",
        "icecream dogsitter saucepan",
        "icecream=ice cream dogsitter=dog sitter saucepan=sauce pan",
    ),
    "stored word that is two": ("My icecream. Ice cream.", "Melanie", "icecream Icecream", ""),
    "parts that are apart": ("The ice is thin, and cream is fat.", "Melanie", "icecream", ""),
    "word that sounds alike": (
        "The flour and the sail are in the cellar.",
        "Melanie",
        "flower flowers sale seller",
        "flower=flour flowers=flour sale=sail seller=cellar",
    ),
    "stored word that sounds alike": ("A flower in the flour.", "Melanie", "flower", ""),
    "word that sounds like nothing stored": ("We sail.", "Melanie", "flower", ""),
    "name of the tenant": ("Hi.", "Jon, John", "Jon", ""),
    "unstored prefix": ("Hey Mel!", "Melanie, Deborah", "Deb Mel", "Deb=Deborah"),
    "equally near names": ("We sail.", "Karel, Karol", "Karal", ""),
}


@pytest.mark.parametrize(("text", "names", "words", "expected"), MEANT.values(), ids=MEANT)
async def test_unstored_word_means_the_one_name_it_resembles(
    stored: Stored, text: str, names: str, words: str, expected: str
) -> None:
    await stored.write(segment("a", text, entities=names.split(", ")))

    found = await meant(stored, words)

    assert " ".join(f"{word}={name}" for word, name in found.items()) == expected


async def test_names_and_words_of_other_tenants_are_ignored(stored: Stored) -> None:
    await stored.write(segment("a", entities=("Melanie",)))
    await stored.write(segment("a", "Some melony taste.", entities=("Philip",)), tenant=OTHER)

    assert await meant(stored, "Melony Fillip") == {"Melony": "Melanie"}
    assert await meant(stored, "Melony", TenantName("nobody")) == {}


async def test_name_is_known_from_its_write_to_erasure(stored: Stored) -> None:
    await stored.write(segment("a", entities=("Melanie",)))
    before = await meant(stored, "Melony Fillip")
    await stored.write(segment("b", entities=("Philip",)))
    after = await meant(stored, "Melony Fillip")
    await stored.erase(segment_id("a"))

    assert before == {"Melony": "Melanie"}
    assert after == {"Melony": "Melanie", "Fillip": "Philip"}
    assert await meant(stored, "Melony Fillip") == {"Fillip": "Philip"}
