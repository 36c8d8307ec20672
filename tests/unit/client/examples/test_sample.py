"""The sample conversation holds what its README and its questions say of it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from trivium import Fact, Segment
from trivium.files.reading import Question, read_items, read_questions
from trivium.files.records import Problem

SAMPLE = Path(__file__).parents[4] / "clients/python/examples/sample"


def refuse(problem: Problem) -> None:
    raise AssertionError(str(problem))


ITEMS = [
    found.item
    for found in read_items(
        [str(SAMPLE / "conversation.jsonl"), str(SAMPLE / "facts.jsonl")], refuse
    )
]
TURNS = {item.id: item for item in ITEMS if isinstance(item, Segment)}
FACTS = {item.id: item for item in ITEMS if isinstance(item, Fact)}
QUESTIONS = [
    question
    for name in ("questions.jsonl", "unanswerable.jsonl")
    for question in read_questions(str(SAMPLE / name), refuse)
]
BY_RETRIEVER = {question.retriever: question for question in QUESTIONS}


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def stems(text: str) -> set[str]:
    """Words cut to their first four letters: at least as coarse as a stemmer."""
    return {word[:4] for word in words(text)}


def said(turn: Segment) -> str:
    """A turn as it is indexed."""
    return f"{turn.speaker}: {turn.text}"


def answer_of(question: Question) -> Segment:
    (id_,) = question.answer
    return TURNS[id_]


def evidence() -> set[str]:
    return {id_ for fact in FACTS.values() for id_ in fact.evidence}


def test_sample_has_the_size_that_its_readme_says() -> None:
    sessions = {turn.session for turn in TURNS.values()}

    assert (len(TURNS), len(sessions), len(FACTS), len(QUESTIONS)) == (163, 14, 63, 10)
    assert len(TURNS) + len(FACTS) == len(ITEMS), "an id is there twice"


def test_two_people_talk_in_turn_over_weeks() -> None:
    times = [turn.event_time for turn in TURNS.values() if turn.event_time]

    assert {turn.speaker for turn in TURNS.values()} == {"Nora", "Idris"}
    assert times == sorted(times)
    assert (times[-1] - times[0]).days > 70


def test_every_fact_rests_on_turns_that_exist() -> None:
    assert evidence() <= TURNS.keys()
    assert all(fact.evidence for fact in FACTS.values())


@pytest.mark.parametrize(
    ("subject", "relation", "now"),
    [
        ("Idris", "works at", "Contour Press"),
        ("Nora", "works at", "Marshgate Wildlife Hospital"),
        ("Nora", "lives in", "Bedminster"),
        ("wedding", "planned for", "8 November 2025"),
        ("baby", "due on", "12 December 2025"),
        ("nursery", "is painted", "green"),
    ],
)
def test_changed_fact_is_closed_and_replaced(subject: str, relation: str, now: str) -> None:
    facts = [
        each for each in FACTS.values() if (each.subject, each.relation) == (subject, relation)
    ]

    (former,) = (fact for fact in facts if fact.valid_to is not None)
    (current,) = (fact for fact in facts if fact.valid_to is None)
    assert current.object == now
    assert former.valid_to is not None
    assert current.valid_from is not None
    assert former.valid_to <= current.valid_from


def test_periods_of_facts_end_after_they_begin() -> None:
    periods = [
        (fact.valid_from, fact.valid_to)
        for fact in FACTS.values()
        if fact.valid_from and fact.valid_to
    ]

    assert periods
    assert all(start < end for start, end in periods)


def test_answerable_questions_test_every_retriever() -> None:
    assert Counter(bool(question.answer) for question in QUESTIONS) == {True: 5, False: 5}
    assert all(question.answerable == bool(question.answer) for question in QUESTIONS)
    assert all(answer_of(question) for question in QUESTIONS if question.answer)
    assert set(BY_RETRIEVER) - {""} == {
        "words",
        "meaning",
        "relations",
        "words and meaning",
        "facts over time",
    }


@pytest.mark.parametrize("retriever", ["meaning", "relations"])
def test_answer_shares_no_word_with_the_question(retriever: str) -> None:
    question = BY_RETRIEVER[retriever]

    assert stems(question.text).isdisjoint(stems(said(answer_of(question))))


def test_only_meaning_reaches_its_answer() -> None:
    question = BY_RETRIEVER["meaning"]
    named = {name for turn in TURNS.values() for name in turn.entities}
    named |= {name for fact in FACTS.values() for name in (fact.subject, fact.object)}
    every_turn = set().union(*(stems(said(turn)) for turn in TURNS.values()))
    content = {word for word in words(question.text) if len(word) > 3}

    assert answer_of(question).id not in evidence()
    assert stems(question.text).isdisjoint(set().union(*(stems(name) for name in named)))
    assert {word[:4] for word in content}.isdisjoint(every_turn)


def test_answer_of_relations_is_two_facts_away() -> None:
    question = BY_RETRIEVER["relations"]
    answer = answer_of(question)

    (first,) = (fact for fact in FACTS.values() if words(fact.subject) <= words(question.text))
    (second,) = (fact for fact in FACTS.values() if fact.subject == first.object)
    assert answer.id in second.evidence
    assert answer.id not in first.evidence
    assert first.object not in answer.entities
    assert words(first.object).isdisjoint(words(said(answer)))
    assert first.subject not in answer.entities
    # Neither fact touches a speaker, from whom everything is near.
    assert {first.subject, first.object, second.object}.isdisjoint({"Nora", "Idris"})


def test_no_turn_has_a_word_of_a_question_without_an_answer() -> None:
    every_turn = set().union(*(stems(said(turn)) for turn in TURNS.values()))
    stop_words = {"which", "did", "they", "from", "what", "is", "the", "how", "in"}

    asked = {
        word
        for question in QUESTIONS
        if not question.answerable
        for word in words(question.text) - stop_words
    }
    assert {word[:4] for word in asked if len(word) > 2}.isdisjoint(every_turn)
