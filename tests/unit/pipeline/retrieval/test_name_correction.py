"""A question's misspelt names, from the words to the legs and the answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from serving.domain.errors import StoreUnavailableError, TriviumError
from serving.domain.items.records import segment_id
from serving.domain.ranking.profile import LegSpec, Profile, SignalSpec
from serving.pipeline.retrieval.explain_absence import AbsenceExplainer
from serving.pipeline.retrieval.name_correction import NameCorrection, correct_names
from tests.fakes.graph import InMemoryGraph
from tests.fakes.pipeline import FixedLeg, FixedNames
from tests.support.builders import query, segment
from tests.unit.pipeline.retrieval.retrieving import (
    answered,
    hit_ids,
    some_space,
    soon,
    steps,
    store_of,
)

CORRECTING = Profile(name="correcting", legs=(LegSpec(name="lexical"),), resolve_names=True)
WHERE = query("Where is Melony?")


def names() -> FixedNames:
    return FixedNames(Melony="Melanie")


async def test_meant_name_follows_each_misheard_word() -> None:
    asked, known = query("Was Melony's Melonyade melony's, or Melony?"), names()

    read, corrections = await correct_names(asked, known, soon())

    assert read.text == "Was Melony Melanie's Melonyade melony's, or Melony Melanie?"
    assert corrections == (NameCorrection("Melony", "Melanie"),)
    assert known.asked == [["was", "Melony", "Melonyade"]]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("How high was the bill?", "How high was the bill?"),
        ("Do we need ham, Ann?", "Do we need ham, Ann?"),
        ("Where is Bill?", "Where is Bill Bella?"),
        # A transcript without capitals says nothing of it.
        ("where is bill", "where is bill Bella"),
        ("Bill is where?", "Bill Bella is where?"),
        ("WHERE IS BILL", "WHERE IS BILL Bella"),
        ("Ask Bill?", "Ask Bill Bella?"),
        (" Ham is where?", " Ham Hamburg is where?"),
    ],
)
async def test_words_written_small_are_no_names(text: str, read: str) -> None:
    known = FixedNames(Bill="Bella", bill="Bella", ham="Hamburg")

    corrected, _ = await correct_names(query(text), known, soon())

    assert corrected.text == read


@pytest.mark.parametrize("text", ["WHERE IS IT CHILLY", "Where Is It Chilly?"])
async def test_capitals_of_all_words_make_no_names(text: str) -> None:
    known = FixedNames(Chilly="Chile", CHILLY="Chile")

    read, corrections = await correct_names(query(text), known, soon())

    assert (read.text, corrections) == (text, ())
    assert known.asked == [["where", "chilly"]]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Where is the icecream?", "Where is the icecream ice cream?"),
        ("where is the icecream", "where is the icecream ice cream"),
        ("Where is the dogsitter, Ann?", "Where is the dogsitter, Ann?"),
        ("Where is the saucepan, Ann?", "Where is the saucepan sauce pan, Ann?"),
        ("Where is the flower, Ann?", "Where is the flower flour, Ann?"),
    ],
)
async def test_word_in_small_letters_is_read_as_others(text: str, read: str) -> None:
    known = FixedNames(icecream="ice cream", dogsitter="Doug", saucepan="sauce pan", flower="flour")

    corrected, _ = await correct_names(query(text), known, soon())

    assert corrected.text == read


async def test_a_question_without_words_asks_nobody() -> None:
    known = FixedNames()

    assert await correct_names(query("42?"), known, soon()) == (query("42?"), ())
    assert known.asked == []


@pytest.mark.parametrize("error", [StoreUnavailableError("away"), TimeoutError()])
async def test_unresolvable_question_stays_unchanged(error: TriviumError | TimeoutError) -> None:
    assert await correct_names(WHERE, FixedNames(error), soon()) == (WHERE, ())


async def test_legs_and_signals_receive_the_corrected_question() -> None:
    stored = [segment("a", "one", speaker="Noam"), segment("b", "two", speaker="Melanie")]
    leg = FixedLeg("a b")
    profile = replace(CORRECTING, signals=(SignalSpec(name="speaker", weight=10),))

    answer = await answered(stored, {"lexical": leg}, profile, WHERE, names=names())

    assert leg.requests[0].query.text == "Where is Melony Melanie?"
    assert hit_ids(answer) == ["b", "a"]
    assert answer.name_corrections == (NameCorrection("Melony", "Melanie"),)


async def test_profile_without_correction_keeps_the_question() -> None:
    leg, known = FixedLeg("a"), names()
    profile = replace(CORRECTING, resolve_names=False)

    answer = await answered([segment("a")], {"lexical": leg}, profile, WHERE, names=known)

    assert (leg.requests[0].query.text, answer.name_corrections, known.asked) == (
        "Where is Melony?",
        (),
        [],
    )


async def test_explained_legs_receive_the_corrected_question() -> None:
    store = await store_of(segment("a", "one"))
    leg = FixedLeg("a")
    answering = steps(store, {"lexical": leg}, names=names())
    explainer = AbsenceExplainer(answering, store, some_space(), InMemoryGraph())

    await explainer.explain(WHERE, CORRECTING, segment_id("a"), soon())

    assert leg.requests[0].query.text == "Where is Melony Melanie?"
