"""Tests that what holds comes before what once held, and statements before questions."""

from __future__ import annotations

from datetime import timedelta

import pytest

from serving.domain.ranking.current import Question, Statement, current_first
from tests.support.builders import NOON

OLD = "The dentist is on Thursday at half past three."
NEW = "The dentist had to move me, it's now Tuesday at nine."


def said(*texts: tuple[str, float]) -> list[Statement]:
    """Statements with scores, each said a day after the one before it."""
    return [
        Statement(text, NOON + timedelta(days=day), score)
        for day, (text, score) in enumerate(texts)
    ]


def test_newer_statement_takes_the_place_of_the_older() -> None:
    arranged = current_first("When is the dentist?", said((OLD, 1.0), (NEW, 0.5)))

    assert (arranged.order, arranged.outdated_by) == ([1, 0], {0: 1})


@pytest.mark.parametrize(
    "newer",
    [
        "The van was 420 in the end.",
        "Scratch that, it is 420 for the van.",
        "On second thought the van is 420.",
        "As of Monday the van is 420.",
        "The van has been bumped up to 420.",
    ],
)
def test_words_of_change_need_less_of_the_score(newer: str) -> None:
    found = said(("The van is 380 euros.", 1.0), (newer, 0.3))

    assert current_first("How much is the van?", found).order == [1, 0]


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
    assert current_first(question, said(*BAKERIES)).order == order


def test_documents_are_not_preferred_by_their_times() -> None:
    found = [Statement(each.text, each.said, each.score, is_turn=False) for each in said(*BAKERIES)]

    assert current_first("When does the bakery close?", found).order == [0, 1]


def test_statements_of_one_instant_keep_their_order() -> None:
    found = [Statement(text, NOON, score) for text, score in BAKERIES]

    assert current_first("When does the bakery close?", found).order == [0, 1]


def test_newest_of_several_statements_comes_first() -> None:
    newest = "The dentist called again, make it Friday at ten."

    arranged = current_first("When is the dentist?", said((OLD, 1.0), (NEW, 0.6), (newest, 0.5)))

    assert (arranged.order, arranged.outdated_by) == ([2, 1, 0], {0: 2, 1: 2})


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
    arranged = current_first(question, said((OLD, 1.0), (newer, score)))

    assert (arranged.order, arranged.outdated_by) == ([0, 1], {})


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        (
            "When does my son start school?",
            "My boy starts school in August.",
            "My colleague Sonia starts a new job in August.",
        ),
        (
            "Which car does he drive?",
            "He drives a silver Volvo these days.",
            "On Sunday my aunt Carla drives to Ghent.",
        ),
    ],
)
def test_statement_far_from_the_question_outdates_nothing(
    question: str, older: str, newer: str
) -> None:
    found = said((older, 0.9), (newer, 0.5))
    assert current_first(question, found).order == [1, 0]
    found[1].is_near = False

    assert current_first(question, found).order == [0, 1]

    found[0].is_near = False  # as where meaning was not searched
    assert current_first(question, found).order == [1, 0]


def test_statement_without_the_asked_words_outdates_nothing() -> None:
    question = "When is the parents' evening of the school?"
    older = "The parents' evening is on Thursday at seven, in the school."

    arranged = current_first(question, said((older, 0.9), ("The evening bus is on Sunday.", 0.6)))
    moved = current_first(question, said((older, 0.9), ("The evening is now on Friday.", 0.6)))

    assert (arranged.order, moved.order) == ([0, 1], [1, 0])


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        (
            "When is the wedding?",
            "He proposed to Ines! They're getting married on the twenty-second of November.",
            "Monday the twenty-seventh. Castle Rock until the twenty-fourth, then a weekend off.",
        ),
        ("Wann ist die Hochzeit?", "Sie heiraten am 9. November.", "Am Montag im November Kino."),
        ("What does the hall cost?", "The hall is 120 an evening.", "Trains are 120 to Graz."),
    ],
)
def test_statements_share_no_subject_by_a_value(question: str, older: str, newer: str) -> None:
    assert current_first(question, said((older, 1.0), (newer, 0.6))).order == [0, 1]


def test_newer_statement_of_equal_score_comes_first() -> None:
    assert current_first("When is the dentist?", said((OLD, 1.0), (NEW, 1.0))).order == [1, 0]


def test_statement_without_another_value_outdates_nothing() -> None:
    password, other = "The wifi password is sunflower-22.", "The guest wifi is open."

    arranged = current_first("What is the wifi password?", said((password, 1.0), (other, 0.9)))

    assert arranged.order == [0, 1]


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        (
            "Whose number is 01715550142?",
            "You can reach me at 0171-555-0142.",
            "You can reach me at 0171-555-0177.",
        ),
        (
            "What is the status of MER-0014?",
            "Ticket MER-0014 is now open, code 3.",
            "Ticket MER-0017 is now closed, code 3.",
        ),
        (
            "Which invoice is inv 2026 0093?",
            "Invoice INV_2026_0093 is over 1,299.00 euros.",
            "Invoice INV_2026_0039 is over 12,990.00 euros.",
        ),
        (
            "Which invoice is over 1299?",
            "Invoice INV_2026_0093 is over 1,299.00 euros.",
            "Invoice INV_2026_0039 is over 12,990.00 euros.",
        ),
        (
            "Where is the meeting in room 12?",
            "The meeting is in room 12, left.",
            "The other meeting is in room 14 now.",
        ),
    ],
)
def test_statement_with_the_number_in_question_stays(question: str, older: str, newer: str) -> None:
    assert current_first(question, said((older, 1.0), (newer, 0.9))).order == [0, 1]


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        ("Where does my sister live?", "My sister lives in Leeds.", "My brother lives in York."),
        (
            "Where does my sister live?",
            "My sister lives in Leeds.",
            "My brother lives in York now.",
        ),
        ("When is Emma's birthday?", "Emma's birthday is on 4 March.", "Emil's is on 14 March."),
        (
            "When is the red bin collected?",
            "The red bin is collected on Mondays.",
            "The blue bin is collected on Thursdays.",
        ),
        (
            "How much is the gym?",
            "My gym membership costs 30 euros a month.",
            "My phone contract costs 19 euros a month.",
        ),
        (
            "Wann wird die rote Tonne geholt?",
            "Die rote Tonne wird am Montag geholt.",
            "Die blaue Tonne wird jetzt am Freitag geholt.",
        ),
        (
            "¿Dónde trabaja mi hermana?",
            "Mi hermana trabaja en Correos.",
            "Mi hermano trabaja ahora en Renfe.",
        ),
        ("Who is May?", "May is expecting a child.", "We may go sailing."),
    ],
)
def test_statement_of_another_subject_outdates_nothing(
    question: str, older: str, newer: str
) -> None:
    assert current_first(question, said((older, 1.0), (newer, 0.6))).order == [0, 1]


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        ("Who is Clara's teacher?", "Clara's teacher is Mrs Novak.", "Clara's school is over now."),
        ("When is Tom's exam?", "Tom's exam is on Monday.", "Tom has a new cat now, Eva."),
        ("Where do we meet Ana?", "We meet Ana at the station.", "Ana is vegetarian now."),
        ("Where does Kim work?", "Kim works at the zoo.", "Kim now has a dog called Rex."),
        ("Where does Nora live?", "Nora lives in York.", "Nora is allergic to penicillin."),
        (
            "How much does the nanny cost?",
            "The nanny costs 12 euros an hour.",
            "The nanny can't on Mondays anymore.",
        ),
    ],
)
def test_change_of_another_thing_outdates_nothing(question: str, older: str, newer: str) -> None:
    assert current_first(question, said((older, 1.0), (newer, 0.8))).order == [0, 1]


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        ("Which Rose has the key?", "Rose Hall has the key.", "Rose is back early from Rome now."),
        ("Who is Frank Osler?", "Frank Osler is the new postman.", "Frank has moved to Leeds."),
        ("Who's Ada?", "Ada is the plumber, not the baker.", "Ada is the mother of two now."),
        ("Wer ist Anna?", "Anna ist die neue Hausärztin.", "Anna ist jetzt in der Stadt."),
        ("¿Quién es Ana?", "Ana es la vecina de abajo.", "Ana ya no fuma."),
        ("Qui est Anne ?", "Anne est la voisine du dessous.", "Anne a maintenant un chien."),
        ("Wie is Anna?", "Anna is de buurvrouw van beneden.", "Anna heeft nu een hond."),
    ],
)
def test_question_for_a_person_outdates_nobody(question: str, older: str, newer: str) -> None:
    assert current_first(question, said((older, 1.0), (newer, 0.8))).order == [0, 1]


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        ("Who is Mia Hall's boss?", "Mia Hall's boss is Mr Lim.", "Mia's boss is Eve now."),
        ("Which Monday is the exam?", "The exam is on the 5th.", "The exam is on the 12th now."),
        ("Who is the plumber?", "The plumber is called Ada.", "The plumber is Tom now."),
        ("Wer ist Annas Ärztin?", "Annas Ärztin ist Eva.", "Annas Ärztin ist jetzt Ute."),
    ],
)
def test_question_for_who_holds_an_office_has_its_value(
    question: str, older: str, newer: str
) -> None:
    assert current_first(question, said((older, 1.0), (newer, 0.8))).order == [1, 0]


def test_possessive_is_no_word_that_two_statements_share() -> None:
    older = "Bea quit. Her last day is the 27th."
    newer = "Freya's first day. She gets the 5:20 bus."

    order = current_first("When is Bea's last day?", said((older, 1.0), (newer, 0.8))).order

    assert order == [0, 1]


def test_change_without_words_of_the_question_outdates_nothing() -> None:
    older = "Mr Brand says that the heating must not be turned off at night."
    newer = "Mr Brand has sold the house, and the rent goes to Mrs Ash from now on."

    order = current_first("Is the heating turned off?", said((older, 1.0), (newer, 0.8))).order

    assert order == [0, 1]


def test_value_in_question_may_be_outdated() -> None:
    older, newer = "The dentist is on Thursday.", "The dentist is on Tuesday now."

    assert current_first("Is the dentist on Thursday?", said((older, 1.0), (newer, 0.8))).order == [
        1,
        0,
    ]


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        ("Do I smoke?", "I smoke ten cigarettes a day.", "I gave up smoking three weeks ago."),
        ("How old is Mia?", "Mia is four years old.", "Mia turned five today."),
        ("How many sugars do I take?", "I take two sugars in tea.", "No more sugar in tea for me."),
        ("When is the school party?", "The school party is on Monday.", "The party is off, sadly."),
        ("Am I still with Steven?", "My boyfriend is called Steven.", "Steven and I broke up."),
        ("Are we getting a dog?", "We will get a dog, Rufus.", "Rufus is sold, so no dog for us."),
        (
            "Where did I park the car?",
            "I parked the car on level 2.",
            "I moved the car to level 5.",
        ),
        (
            "Where is my passport?",
            "My passport is in the drawer.",
            "I put my passport into the bag.",
        ),
        (
            "What was the code of my locker again?",
            "The code of my locker is 3391.",
            "They gave me another locker, the code is 8802.",
        ),
        (
            "When is the first train?",
            "The first train leaves at 5:40.",
            "New timetable: the first train goes at 5:55.",
        ),
    ],
)
def test_change_is_understood_in_other_words(question: str, older: str, newer: str) -> None:
    assert current_first(question, said((older, 1.0), (newer, 0.75))).order == [1, 0]


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
    arranged = current_first(question, said((older, 0.6), (newer, 1.0))[::-1])

    assert (arranged.order, arranged.outdated_by) == ([1, 0], {})


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

    assert (current_first(question, found).order == [1, 0]) is has_code


def test_number_in_both_statements_protects_neither() -> None:
    older, newer = "Room 12 is at the dentist's.", "Room 12 is at the baker's now."

    assert current_first("Where is room 12?", said((older, 1.0), (newer, 0.9))).order == [1, 0]


def test_name_that_most_share_makes_nothing_alike() -> None:
    grapefruit = "Mr. Whitlock may not have grapefruit with the tablets he takes for his heart."
    others = [
        (f"Whitlock's {thing} is on another day now.", 0.7)
        for thing in ("scale", "blood test", "garden visit", "lunch", "sister", "new hoist", "bus")
    ]

    arranged = current_first("Can Mr. Whitlock have grapefruit?", said((grapefruit, 1.0), *others))

    assert arranged.order[0] == 0


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        (
            "Wann ist der Termin beim Zahnarzt?",
            "Der Termin beim Zahnarzt ist am Donnerstag um neun.",
            "Der Zahnarzt hat angerufen, der Termin ist jetzt am Dienstag.",
        ),
        (
            "¿Dónde vive mi hermana?",
            "Mi hermana vive en Lugo, en la calle del Río.",
            "Mi hermana se ha mudado, ahora vive en Vigo.",
        ),
        (
            "Quand est le rendez-vous chez le dentiste ?",
            "Le rendez-vous chez le dentiste est jeudi à neuf heures.",
            "Le dentiste a appelé, le rendez-vous est reporté à mardi.",
        ),
        (
            "Hoe laat is de afspraak bij de tandarts?",
            "De afspraak bij de tandarts is donderdag om negen uur.",
            "De tandarts belde, de afspraak is verzet naar dinsdag.",
        ),
        (
            "Wo wohnt meine Schwester?",
            "Meine Schwester wohnt in Lübeck.",
            "Meine Schwester ist nach Kiel gezogen.",
        ),
        (
            "Quando è l'appuntamento dal dentista?",
            "L'appuntamento dal dentista è giovedì.",
            "L'appuntamento è stato spostato a martedì.",
        ),
        (
            "Quando é a consulta no dentista?",
            "A consulta no dentista é na quinta-feira.",
            "A consulta mudou para terça-feira.",
        ),
        (
            "När är tandläkaren?",
            "Tandläkaren är på torsdag klockan tre.",
            "Tandläkaren ringde, det blir tisdag istället.",
        ),
        (
            "Где живёт моя сестра?",
            "Моя сестра живёт в Казани.",
            "Моя сестра переехала, теперь она в Перми.",
        ),
    ],
)
def test_change_is_understood_in_other_languages(question: str, older: str, newer: str) -> None:
    assert current_first(question, said((older, 1.0), (newer, 0.5))).order == [1, 0]


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        ("Missä siskoni asuu?", "Siskoni asuu Turussa.", "Siskoni rakastaa Turkua."),
        ("歯医者はいつですか", "歯医者は木曜日です。", "歯医者は木曜日に休みです。"),
        ("Wo wohnte Anna früher?", "Anna wohnt in Bonn.", "Anna wohnt jetzt in Köln."),
        ("What was the code?", "The code is 4711.", "The code is 4712 now."),
        ("What did the vet say?", "The vet says he may run.", "The vet says he may not run now."),
        ("Was war der Code?", "Der Code ist 4711.", "Der Code ist jetzt 4712."),
    ],
)
def test_statements_not_understood_stay_in_place(question: str, older: str, newer: str) -> None:
    assert current_first(question, said((older, 1.0), (newer, 0.9))).order == [0, 1]


def test_statement_behind_a_newer_one_is_marked() -> None:
    arranged = current_first("When is the dentist?", said((OLD, 0.5), (NEW, 1.0))[::-1])

    assert (arranged.order, arranged.outdated_by) == ([0, 1], {1: 0})


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

    arranged = current_first(
        "When is the dental cleaning of our dog Moti?", said((older, 0.5), (newer, 1.0))[::-1]
    )

    assert (arranged.order, arranged.outdated_by) == ([0, 1], {})


def test_mark_needs_a_word_of_the_question() -> None:
    code = "The code for the bike shed in the new house is 4471."
    rent = "The landlady of the new flat wrote, the rent is now 1,080."

    arranged = current_first("What is the code of the bike shed?", said((code, 1.0), (rent, 0.5)))

    assert arranged.outdated_by == {}


def test_older_statement_is_never_moved_up() -> None:
    newer_first = said((OLD, 0.9), (NEW, 1.0))[::-1]

    assert current_first("When is the dentist?", newer_first).order == [0, 1]


def test_stored_questions_come_after_their_answer() -> None:
    asked = [("When is the wedding?", 1.0 - place / 10) for place in range(6)]

    arranged = current_first(
        "When is the wedding?", said(*asked, ("It's on the 4th of June.", 0.55))
    )

    assert arranged.order == [6, 0, 1, 2, 3, 4, 5]


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
    assert current_first("When?", []).order == []
