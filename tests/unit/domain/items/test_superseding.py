from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.items.records import Fact
from serving.domain.items.superseding import closings_of
from serving.domain.items.validity import Clocks, final_end
from tests.support.builders import NOON, days, fact
from tests.support.naive_facts import held

DAYS = st.integers(0, 4).map(lambda day: NOON + days(day))
IDS = "abcdef"


def home(id_: str, place: str, day: int, **fields: Any) -> Fact:
    """A single-valued fact: where Ann lives from a day on."""
    of = {"subject": "Ann", "relation": "lives in", "object": place, "recorded_at": NOON}
    return Fact(
        **{"id": id_, **of, "valid_from": NOON + days(day), "single_valued": True, **fields}
    )


def closed(*facts: Fact) -> dict[str, Fact]:
    """The facts with their closings, by id."""
    closings = closings_of(facts, facts)
    return {one.id: replace(one, closings=closings[one.id]) for one in facts}


def ended(one: Fact) -> datetime | None:
    """The final end of its validity."""
    return final_end(one.valid_to, one.closings)


def closers(*facts: Fact) -> dict[str, list[str]]:
    """The ids of the facts that close each fact."""
    return {id_: [each.by for each in one.closings] for id_, one in closed(*facts).items()}


@pytest.mark.parametrize(
    ("times", "end"),
    [({"valid_from": NOON + days(2)}, 2), ({"recorded_at": NOON + days(1)}, 1)],
    ids=["start", "record"],
)
def test_fact_closes_named_facts_from_its_time(times: dict[str, datetime], end: int) -> None:
    old = fact("old", "Ann", "lives in", "Goa")
    new = fact("new", "Bob", "met", "Cid", closes=("old", "unknown"), **times)

    stored = closed(old, new)

    assert ended(stored["old"]) == NOON + days(end)
    assert ended(stored["new"]) is None


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (home("b", "Goa", 0), home("a", "Rome", 1)),
        (home("b", "Goa", 0), home("a", "Rome", 0, recorded_at=NOON + days(1))),
        (home("a", "Goa", 0), home("b", "Rome", 0)),
        (home("a", "Goa", 0, single_valued=False), home("b", "Rome", 1)),
        (home("a", "Goa", 0, subject="ANN "), home("b", "Rome", 1, relation="Lives  in")),
    ],
    ids=["start", "record", "id", "of a plain one", "spelling"],
)
def test_of_two_values_the_later_closes_the_earlier(earlier: Fact, later: Fact) -> None:
    assert closers(later, earlier) == {earlier.id: [later.id], later.id: []}


@pytest.mark.parametrize(
    "other",
    [
        home("b", "Rome", 1, single_valued=False),
        home("b", "Rome", 1, subject="Bob"),
        home("b", "Rome", 1, relation="works in"),
    ],
    ids=["many values", "subject", "relation"],
)
def test_facts_that_do_not_conflict_close_nothing(other: Fact) -> None:
    assert closers(home("a", "Goa", 0, closes=("a",)), other)["a"] == []


def test_a_closing_recorded_before_the_successor_is_kept_too() -> None:
    first, third = home("a", "Goa", 0), home("c", "Oslo", 2)
    second = home("b", "Rome", 1, recorded_at=NOON + days(3))

    stored = closed(first, second, third)["a"]

    assert [closing.by for closing in stored.closings] == ["b", "c"]
    assert stored.held_until(Clocks(NOON, NOON + days(2))) == NOON + days(2)
    assert stored.held_until(Clocks(NOON, NOON + days(3))) == NOON + days(1)


def test_retracted_fact_closes_another_only_while_known() -> None:
    old, wrong = home("a", "Goa", 0), home("b", "Rome", 1, retracted_at=NOON + days(5))

    stored = closed(old, wrong)["a"]

    assert ended(stored) is None
    assert stored.holds(Clocks(NOON + days(4)))
    assert stored.holds(Clocks(NOON + days(5)))
    assert stored.holds(Clocks(NOON + days(4), NOON + days(5)))
    assert not stored.holds(Clocks(NOON + days(6), NOON + days(4)))


@st.composite
def facts(draw: st.DrawFn) -> list[Fact]:
    return [
        fact(
            id_,
            draw(st.sampled_from(["Ann", "ann", "Bob"])),
            draw(st.sampled_from(["lives in", "works in"])),
            "somewhere",
            recorded_at=draw(DAYS),
            valid_from=draw(st.none() | DAYS),
            valid_to=draw(st.none() | DAYS),
            retracted_at=draw(st.none() | DAYS),
            closes=tuple(draw(st.sets(st.sampled_from(IDS), max_size=2)) - {id_}),
            single_valued=draw(st.booleans()),
        )
        for id_ in draw(st.sets(st.sampled_from(IDS)))
    ]


@given(facts(), DAYS, st.none() | DAYS)
def test_a_fact_holds_as_the_definitions_say(stored: list[Fact], as_of: Any, known_at: Any) -> None:
    found = [id_ for id_, one in closed(*stored).items() if one.holds(Clocks(as_of, known_at))]

    assert sorted(found) == held(stored, as_of, known_at)


@given(facts(), DAYS)
def test_the_final_end_is_the_end_without_retracted_closings(
    stored: list[Fact], as_of: Any
) -> None:
    for one in closed(*stored).values():
        assert one.held_until(Clocks(as_of)) == ended(one)
