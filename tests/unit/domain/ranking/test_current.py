"""Tests that what holds comes before what once held, and statements before questions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from math import prod
from pathlib import Path

import pytest

from serving.domain.ranking.current import Question, Statement, current_first
from tests.support.builders import NOON

OLD = "The dentist is on Thursday at half past three."
NEW = "The dentist had to move me, it's now Tuesday at nine."
TABLE = Path(__file__).with_name("two_statements.tsv").read_text().splitlines()
"""The rules, each with statements that it orders; the older one has the score 1."""


def said(*texts: tuple[str, float]) -> list[Statement]:
    """Statements with scores, each said a day after the one before it."""
    return [
        Statement(text, NOON + timedelta(days=day), score)
        for day, (text, score) in enumerate(texts)
    ]


def order_of(question: str, found: Sequence[Statement]) -> list[int]:
    """The places of the statements by their scores times their factors; equal ones as found."""
    verdicts = current_first(question, found).verdicts
    values = [
        each.score * prod(verdict.factor for verdict in of_each)
        for each, of_each in zip(found, verdicts, strict=True)
    ]
    return sorted(range(len(found)), key=lambda place: -values[place])


def marked(question: str, found: Sequence[Statement]) -> tuple[list[int], dict[int, int]]:
    return order_of(question, found), current_first(question, found).outdated_by


def test_newer_statement_takes_the_place_of_the_older() -> None:
    arranged = marked("When is the dentist?", said((OLD, 1.0), (NEW, 0.5)))

    assert arranged == ([1, 0], {0: 1})


@pytest.mark.parametrize("row", TABLE[1:], ids=lambda row: row.partition("\t")[0])
def test_two_statements_have_the_order_of_their_rule(row: str) -> None:
    _, score, first, question, older, newer = row.split("\t")

    found = said((older, 1.0), (newer, float(score)))

    assert order_of(question, found) == ([1, 0] if first == "newer" else [0, 1])


BAKERIES = [
    ("The bakery in Mill Street closes at 5:00.", 1.0),
    ("If you want rolls, our bakery closes so early.", 0.8),
]


@pytest.mark.parametrize(
    ("question", "order"),
    [
        ("When does the bakery close?", [1, 0]),
        ("When does the bakery in Mill Street close?", [0, 1]),  # the newer has fewer of its words
        ("Tell me about the bakery.", [0, 1]),  # has several answers
        ("What is a bakery?", [0, 1]),
        ("What rolls does our bakery like?", [0, 1]),
        ("When does Ana like the bakery to close?", [1, 0]),  # asks for one day or hour
        ("When did the bakery close?", [0, 1]),  # may ask for either
        ("When did the bakery close at first?", [0, 1]),  # asks for the past
        ("Which bakery closes at 5:00?", [0, 1]),  # says which it is about
    ],
)
def test_later_of_two_near_statements_comes_first(question: str, order: list[int]) -> None:
    assert order_of(question, said(*BAKERIES)) == order


def test_documents_are_not_preferred_by_their_times() -> None:
    found = [Statement(each.text, each.said, each.score, is_turn=False) for each in said(*BAKERIES)]

    assert order_of("When does the bakery close?", found) == [0, 1]


def test_statements_of_one_instant_keep_their_order() -> None:
    found = [Statement(text, NOON, score) for text, score in BAKERIES]

    assert order_of("When does the bakery close?", found) == [0, 1]


def test_newest_of_several_statements_comes_first() -> None:
    newest = "The dentist called again, make it Friday at ten."

    arranged = marked("When is the dentist?", said((OLD, 1.0), (NEW, 0.6), (newest, 0.5)))

    assert arranged == ([2, 1, 0], {0: 2, 1: 2})


@pytest.mark.parametrize(
    ("question", "newer", "score"),
    [
        ("When was the dentist before?", NEW, 0.9),  # asks for the past
        ("When is the dentist?", "When is the dentist now?", 0.9),  # asks itself
        ("When is the dentist?", "The bakery is open on Tuesday now.", 0.9),  # about another thing
        ("When is the dentist?", NEW, 0.15),  # far from the question
        ("Tell me about the dentist.", "The dentist likes the sea.", 0.9),  # says no change
        ("When is the dentist?", f"{NEW} {' '.join(map(str, range(100, 130)))}", 0.6),  # long
    ],
)
def test_newer_statement_that_outdates_nothing_stays(
    question: str, newer: str, score: float
) -> None:
    arranged = marked(question, said((OLD, 1.0), (newer, score)))

    assert arranged == ([0, 1], {})


def test_statement_far_from_the_question_outdates_nothing() -> None:
    question = "When does my son start school?"
    older = "My boy starts school in August."
    found = said((older, 0.9), ("My colleague Sonia starts a new job in August.", 0.5))
    assert order_of(question, found) == [1, 0]
    found[1].is_near = False

    assert order_of(question, found) == [0, 1]

    found[0].is_near = False  # as where meaning was not searched
    assert order_of(question, found) == [1, 0]


def test_statement_without_the_asked_words_outdates_nothing() -> None:
    question = "When is the parents' evening of the school?"
    older = "The parents' evening is on Thursday at seven, in the school."

    arranged = marked(question, said((older, 0.9), ("The evening bus is on Sunday.", 0.6)))
    moved = marked(question, said((older, 0.9), ("The evening is now on Friday.", 0.6)))

    assert (arranged[0], moved[0]) == ([0, 1], [1, 0])


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        ("What was my old number?", "My number is 0151 22334.", "My new number is 0160 99887."),
        ("Where did I use to live?", "I live in Leeds.", "I live in York now."),
        ("What was the wifi password before?", "The wifi password is marigold-77.",
         "I changed the wifi password to thistle-12."),
        ("Wo wohnte Anna früher?", "Anna wohnt in Bonn.", "Anna wohnt jetzt in Köln."),
        ("¿Dónde vivía Ana antes?", "Ana vive en Lugo.", "Ana ahora vive en Vigo."),
    ],
)  # fmt: skip
def test_past_that_is_asked_for_comes_first(question: str, older: str, newer: str) -> None:
    arranged = marked(question, said((older, 0.6), (newer, 1.0))[::-1])

    assert arranged == ([1, 0], {})


@pytest.mark.parametrize(
    ("question", "has_code"),
    [
        ("Whose account is DE89370400440532013000?", True),
        ("Whose IBAN ends in 0130 00?", True),
        ("Whose account was opened in 2026?", False),  # a year
        ("Whose 2 accounts are these?", False),  # a count
        ("Whose account is DE77?", False),  # in no statement
    ],
)
def test_statement_with_the_code_in_question_comes_first(question: str, has_code: bool) -> None:
    with_code = "Ana's account is DE89 3704 0044 0532 0130 00, of 2026, number 2."
    found = said((with_code, 0.6), ("Bo has an account.", 0.9))[::-1]

    assert (order_of(question, found) == [1, 0]) is has_code


def test_name_that_most_share_makes_nothing_alike() -> None:
    grapefruit = "Mr. Whitlock may not have grapefruit with the tablets he takes for his heart."
    others = [
        (f"Whitlock's {thing} is on another day now.", 0.7)
        for thing in ("scale", "blood test", "garden visit", "lunch", "sister", "new hoist", "bus")
    ]

    arranged = marked("Can Mr. Whitlock have grapefruit?", said((grapefruit, 1.0), *others))

    assert arranged[0][0] == 0


def test_statement_behind_a_newer_one_is_marked() -> None:
    arranged = marked("When is the dentist?", said((OLD, 0.5), (NEW, 1.0))[::-1])

    assert arranged == ([0, 1], {1: 0})


@pytest.mark.parametrize(
    "older",
    [
        "Noted, the cleaning of the pool is on Monday.",
        "When is the dental cleaning of the dog, on Friday?",
        "The cleaning of the windows costs thirty.",
    ],
)
def test_statement_that_did_not_answer_is_not_marked(older: str) -> None:
    newer = "The dental cleaning of the dog is on Thursday now."

    arranged = marked(
        "When is the dental cleaning of our dog Moti?", said((older, 0.5), (newer, 1.0))[::-1]
    )

    assert arranged == ([0, 1], {})


def test_mark_needs_a_word_of_the_question() -> None:
    code = "The code for the bike shed in the new house is 4471."
    rent = "The landlady of the new flat wrote, the rent is now 1,080."

    arranged = marked("What is the code of the bike shed?", said((code, 1.0), (rent, 0.5)))

    assert arranged[1] == {}


def test_stored_questions_come_after_their_answer() -> None:
    question = "When is the wedding?"
    asked = [(question, 1.0 - place / 10) for place in range(6)]

    arranged = marked(question, said(*asked, ("It's on the 4th of June.", 0.55)))

    assert arranged[0] == [6, 0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("When is the wedding?", True),
        ("Wait, when? And where?", True),
        ("when is the wedding", True),
        ("متى العرس؟", True),
        ("the wedding day is", True),  # repeats the words of the question
        ("Tell me where the spare key is.", True),
        ("could you tell me what joren drinks", True),
        ("I wonder what the plumber charges these days.", True),
        ("is the oven on", True),
        ("do we have eggs", True),
        ("whose number is that", True),
        ("Do the dishes before six.", False),
        ("I don't know why he left. He likes it here.", False),
        ("Tell me about the sea.", False),
        ("And on planes? She takes the aisle.", False),
        ("When I was young we sailed.", False),
        ("The wedding is on the 4th of June.", False),
    ],
)
def test_text_that_only_asks_is_a_question(text: str, asks: bool) -> None:
    assert Question("The wedding day is when?").is_asked_by(Statement(text, NOON, 1.0)) is asks


def test_no_candidates_have_an_empty_order() -> None:
    assert order_of("When?", []) == []
