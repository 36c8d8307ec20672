"""Facts in English turns, by rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from examples.english_facts import EnglishFacts
from serving.domain.english.entities import entities_in
from serving.ports.text_analysis import Conversation, ProposedFact
from tests.support.builders import segment

FACTS = EnglishFacts()
SAID = datetime(2024, 6, 8, 15, tzinfo=UTC)


async def facts_in(text: str, speaker: str = "Ann") -> tuple[ProposedFact, ...]:
    said = segment("t", text, speaker=speaker, event_time=SAID)
    said = replace(said, entities=entities_in(said, {}))
    return (await FACTS.extract(Conversation(turns=(said,)))).facts


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("I'm a nurse at the Mercy clinic.", "Ann is a nurse at the Mercy clinic."),
        ("Oh, and I have a dog called Rex!", "Ann has a dog called Rex."),
        ("My sister works at Google.", "Ann's sister works at Google."),
        ("I’ve finished my thesis.", "Ann has finished Ann's thesis."),
        ("I live in Lisbon now, with Tom.", "Ann lives in Lisbon."),
        ("I moved to Porto last month.", "Ann lives in Porto (May 2024)."),
        ("Good news: Tom Hale bought a boat.", "Tom Hale bought a boat."),
        ("We hiked up there yesterday.", "Ann hiked up there yesterday (7 June 2024)."),
        ("I just love my garden and I miss it.", "Ann loves Ann's garden."),
    ],
)
async def test_a_statement_is_restated_in_the_third_person(text: str, sentence: str) -> None:
    (found,) = await facts_in(text)

    assert found.sentence == sentence
    assert found.evidence == ("t",)


@pytest.mark.parametrize(
    "text",
    [
        "Do I like tea?",
        "I don't like tea.",
        "I never went to Rome.",
        "If I win I buy a boat.",
        "I'd love a boat.",
        "Thanks, that is great!",
        "The weather is bad.",
        "Wow!",
        "",
    ],
)
async def test_questions_negations_and_wishes_state_nothing(text: str) -> None:
    assert await facts_in(text) == ()


async def test_a_turn_without_a_speaker_says_nothing_about_anyone() -> None:
    assert await facts_in("I live in Lisbon.", speaker="") == ()


async def test_fact_begins_on_its_named_day_unless_future() -> None:
    (past,) = await facts_in("I went to Rome on 3 May 2024.")
    (ahead,) = await facts_in("I'm going to Rome tomorrow.")

    assert past.valid_from == datetime(2024, 5, 3, tzinfo=UTC)
    assert ahead.valid_from is None


async def test_a_home_and_an_employer_replace_the_former_ones() -> None:
    moved, bought = await facts_in("I moved to Porto. I bought a boat.")

    assert (moved.relation, moved.object, moved.single_valued) == ("lives in", "Porto", True)
    assert not bought.single_valued
