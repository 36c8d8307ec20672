"""The sample conversation holds what its README and its questions say of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from trivium import Fact, Segment
from trivium.files.reading import Question, read_items, read_questions
from trivium.files.records import Problem

SAMPLE = Path(__file__).parents[4] / "serving/desk/sample"


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


def answer_of(question: Question) -> Segment:
    (id_,) = question.answer
    return TURNS[id_]


def evidence() -> set[str]:
    return {id_ for fact in FACTS.values() for id_ in fact.evidence}


def test_sample_has_the_size_that_its_readme_says() -> None:
    sessions = {turn.session for turn in TURNS.values()}

    assert (len(TURNS), len(sessions), len(FACTS), len(QUESTIONS)) == (163, 14, 63, 10)
    assert len(TURNS) + len(FACTS) == len(ITEMS), "an id is there twice"


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
