"""Tests of what holds now: kinds of statements that do, or do not, take another's place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from serving.domain.languages import ENGLISH
from serving.domain.ranking.holds.judge import Judgement, judge
from serving.domain.ranking.holds.model import Model, Weights, shipped_model
from serving.domain.ranking.holds.pairs import Pairs
from serving.domain.ranking.holds.question import Question
from serving.domain.ranking.holds.statement import Statement, TextTraits
from serving.domain.ranking.ledger import CurrencyReason
from tests.support.builders import NOON

NEVER = Weights(-20.0, dict.fromkeys(shipped_model().without_vectors.of, 0.0))
ALWAYS = Weights(20.0, NEVER.of)


def said(*turns: tuple[str, str, float], session: str = "") -> list[Statement]:
    """Turns with their speakers and scores, each said seven hours after the one before it."""
    return [
        Statement(
            text=text,
            said=NOON + place * timedelta(hours=7),
            score=score,
            speaker=speaker,
            session=session,
        )
        for place, (speaker, text, score) in enumerate(turns)
    ]


def order_of(head: Sequence[Statement], judged: Judgement) -> list[int]:
    values = [
        each.score * math.prod(term.factor for term in terms)
        for each, terms in zip(head, judged.verdicts, strict=True)
    ]
    assert len(set(values)) == len(values), "no two have one score, so that no order is by chance"
    return sorted(range(len(head)), key=lambda place: -values[place])


Turn = tuple[str, str, float]

ADDED = [
    (
        "What am I allergic to?",
        ("Marit", "I am allergic to penicillin.", 0.9),
        ("Marit", "The doctor says I am now allergic to walnuts too.", 0.7),
    ),
    (
        "When do I take my pills?",
        ("Marit", "I take a blood pressure pill at seven.", 0.9),
        ("Marit", "I now also take a thyroid pill at six.", 0.8),
    ),
    (
        "When is the dentist?",
        ("Marit", "The dentist is on Thursday at ten.", 0.9),
        ("Marit", "I have one more dentist appointment now, on Tuesday at nine.", 0.8),
    ),
]

OF_ANOTHER = [
    (
        "When is Ana's flight?",
        ("Ana", "My flight is at seven.", 0.9),
        ("Ben", "My flight was moved to nine.", 0.7),
    ),
    (
        "Which room is Ana in?",
        ("Ana", "I'm in room 12.", 0.9),
        ("Ben", "They put me in room 15 instead.", 0.5),
    ),
    (
        "Who services our boiler?",
        ("Marit", "Our boiler is serviced by Ferreira.", 0.9),
        ("Marit", "My mother's boiler is now serviced by Lindqvist.", 0.7),
    ),
    (
        "What is my locker code?",
        ("Marit", "My locker code is 5512.", 0.9),
        ("Marit", "My locker is next to the stairs, with a code.", 0.7),
    ),
    (
        "Who eats meat?",
        ("Marit", "Joren eats meat.", 0.9),
        ("Marit", "Willem never eats meat.", 0.7),
    ),
    (
        "Where does Alex Petersen live?",
        ("Marit", "Alex Petersen lives above the bakery.", 0.9),
        ("Marit", "Alex Petersen has a parrot.", 0.5),
    ),
]

CORRECTED = [
    ("What is my shoe size?", "My shoe size is 41.", "I lied, it's 42."),
    (
        "When does Linnea's flight land?",
        "Linnea's flight lands at nine.",
        "Wait, I had the wrong ticket, it's ten.",
    ),
    ("What is the alarm code?", "The alarm code is 7315.", "Sorry, I misspoke, it is 7351."),
    ("At which gate is the party?", "The party is at gate B.", "Oops, wrong, it's gate D."),
    ("How high was the deposit?", "The deposit was 300 euros.", "Not 300, it was 350."),
]

TOLD_AS_QUESTIONS = [
    (
        "Where are we moving?",
        "Linnea is moving her desk to the window.",
        "Did I tell you that we are moving to Porto in May?",
    ),
    (
        "What is Bas allergic to?",
        "Bas eats an apple a day.",
        "You know that Bas is allergic to kiwi, don't you?",
    ),
    (
        "When does our holiday start?",
        "Our holiday last year was wet.",
        "Our holiday starts on the ninth, doesn't it?",
    ),
    (
        "When does the boiler man come?",
        "The boiler man was here in March.",
        "Could you note that the boiler man comes on Friday between eight and ten?",
    ),
]


TAKEN_BACK = [
    ("How old is Otis?", "Otis is six.", "I got that wrong, Otis is five."),
    ("Which tiles do we take?", "We take slate tiles.", "Forget what I said, we take white tiles."),
    (
        "What is the wifi password?",
        "The wifi password is maple-seven.",
        "I read it wrong, the password is apple-seven.",
    ),
    (
        "Where does Mrs Osei live?",
        "Mrs Osei lives at number 14.",
        "I misread the letter, Mrs Osei lives at number 41.",
    ),
    ("Wie alt ist Otis?", "Otis ist sechs.", "Ich habe mich vertan, Otis ist fünf."),
    ("¿Qué número tiene Ana?", "Ana tiene el número 14.", "Corrección, Ana tiene el número 41."),
]

SOMETHING_ELSE_TAKEN_BACK = [
    ("How old is Otis?", "Otis is six.", "I got that wrong, Ida is five."),
    ("What milk does Bas drink?", "Bas drinks oat milk.", "Correction, Willem drinks soy milk."),
    (
        "What is our dentist called?",
        "Our dentist is called Brandt.",
        "I mixed up the days, the dentist is on Tuesday.",
    ),
    (
        "Where does Mrs Osei live?",
        "Mrs Osei lives at number 14.",
        "I misread the letter, Mrs Osei comes on the fourth.",
    ),
    ("When is the choir?", "The choir is at nine.", "I was wrong, there is another choir at ten."),
]


NOT_OF_THE_PRESENT = ("Where did Nora live before?", "What was Nora's town?")


def texts(given: object) -> str:
    return given[:24] if isinstance(given, str) else ""


@pytest.mark.parametrize(("question", "older", "newer"), ADDED + OF_ANOTHER, ids=texts)
def test_statement_that_still_holds_is_not_marked(question: str, older: Turn, newer: Turn) -> None:
    assert judge(question, said(older, newer)).outdated_by == {}


@pytest.mark.parametrize(("question", "older", "newer"), OF_ANOTHER, ids=texts)
def test_statement_about_another_takes_no_place(question: str, older: Turn, newer: Turn) -> None:
    head = said(older, newer)

    assert order_of(head, judge(question, head)) == [0, 1]


@pytest.mark.parametrize(("question", "older", "newer"), ADDED + OF_ANOTHER[:3], ids=texts)
def test_sure_model_marks_no_addition_or_other_person(
    question: str, older: Turn, newer: Turn
) -> None:
    head = said(older, newer)

    judged = judge(question, head, model=Model(ALWAYS, ALWAYS))

    assert order_of(head, judged) == [1, 0]
    assert judged.outdated_by == {}


def test_sure_model_marks_former_answers() -> None:
    head = said(("Ana", "We open at eight.", 0.9), ("Ana", "We open at nine.", 0.8))

    assert judge("When do we open?", head, model=Model(ALWAYS, ALWAYS)).outdated_by == {0: 1}


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        (
            "When is the flight?",
            ("Ana", "My flight is at seven.", 0.9),
            ("Ben", "My flight is at nine.", 0.8),
        ),
        (
            "When is Ana's flight?",
            ("Ana", "My flight is at seven.", 0.9),
            ("Lea", "The flight is at nine.", 0.8),
        ),
        (
            "When is the flight?",
            ("Lea", "The flight is at seven.", 0.9),
            ("Lea", "For my boss's flight it is nine.", 0.8),
        ),
        (
            "When is the flight?",
            ("Lea", "The flight is at seven.", 0.9),
            ("Lea", "The flight of Ben is at nine.", 0.8),
        ),
        (
            "When is the flight to Goa on Monday?",
            ("Lea", "It is at seven.", 0.9),
            ("Lea", "It is at nine.", 0.8),
        ),
    ],
    ids=["by-another", "named-is-gone", "owned-by-another", "names-another", "answered-nothing"],
)
def test_sure_model_marks_nothing_of_another_subject(
    question: str, older: Turn, newer: Turn
) -> None:
    judged = judge(question, said(older, newer), model=Model(ALWAYS, ALWAYS))

    assert judged.outdated_by == {}


def test_documents_mark_nothing() -> None:
    turns = said(("", "We open at eight.", 0.9), ("", "We open at nine.", 0.8))
    head = [replace(each, is_turn=False) for each in turns]

    assert judge("When do we open?", head, model=Model(ALWAYS, ALWAYS)).outdated_by == {}


@pytest.mark.parametrize(("question", "wrong", "right"), CORRECTED, ids=texts)
def test_correction_after_noted_is_first(question: str, wrong: str, right: str) -> None:
    turns = ("Marit", wrong, 0.9), ("Helper", "Noted.", 0.2), ("Marit", right, 0.35)
    head = said(*turns, session="call")

    assert order_of(head, judge(question, head))[0] == 2


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        (
            "when is the bored meeting",
            "The board meeting is on the ninth.",
            "No, there are two more bags behind the rice.",
        ),
        (
            "Where is the setlist?",
            "The set-list is on the piano.",
            "No need, I can see the sky from the attic.",
        ),
        (
            "Who is the roofer?",
            "The roofer is called Amsel, he has a red crane.",
            "Sorry, that came out wrong.",
        ),
    ],
)
def test_correction_of_something_else_takes_no_place(question: str, older: str, newer: str) -> None:
    head = said(("Marit", older, 0.8), ("Marit", newer, 0.4), session="call")
    sure = Model(ALWAYS, ALWAYS)

    assert order_of(head, judge(question, head, model=sure)) == [0, 1]


def test_correction_of_one_call_is_first_and_marks() -> None:
    turns = (
        ("Marit", "The alarm code is 7315.", 0.9),
        ("Helper", "Noted, 7315.", 0.4),
        ("Marit", "Sorry, I misread it, the alarm code is 7351 now.", 0.7),
    )
    head = said(*turns, session="call")

    judged = judge("What is the alarm code?", head)

    assert order_of(head, judged)[0] == 2
    assert judged.outdated_by[0] == 2


@pytest.mark.parametrize(("question", "wrong", "right"), TAKEN_BACK, ids=texts)
def test_statement_taken_back_is_outdated_days_later(question: str, wrong: str, right: str) -> None:
    others = [
        ("Marit", f"We have {pet}.", 0.1 + len(pet) / 100) for pet in ("a cat", "hens", "goldfish")
    ]
    head = said(("Marit", wrong, 0.9), *others, ("Marit", right, 0.7))

    judged = judge(question, head, model=Model(NEVER, NEVER))

    assert order_of(head, judged)[:2] == [4, 0]
    assert judged.outdated_by == {0: 4}


@pytest.mark.parametrize(("question", "held", "other"), SOMETHING_ELSE_TAKEN_BACK, ids=texts)
def test_statement_stays_when_something_else_is_retracted(
    question: str, held: str, other: str
) -> None:
    head = said(("Marit", held, 0.9), ("Marit", other, 0.7))

    judged = judge(question, head, model=Model(NEVER, NEVER))

    assert order_of(head, judged) == [0, 1]
    assert judged.outdated_by == {}


def test_statement_of_another_is_not_taken_back() -> None:
    head = said(("Ana", "Otis is six.", 0.9), ("Ben", "I was wrong, Otis is five.", 0.7))

    assert judge("How old is Otis?", head, model=Model(NEVER, NEVER)).outdated_by == {}


@pytest.mark.parametrize(
    ("report", "own", "order"),
    [
        (("Ben", "Ana told me she loves anchovies."), ("Ana", "I hate anchovies."), [1, 0]),
        (("Ben", "Ana says she loves anchovies."), ("Ana", "Yes to anchovies."), [1, 0]),
        (("Ben", "Ana told me she loves anchovies."), ("Ana", "I hate olives."), [0, 1]),
        (("Ben", "Ana told me she loves anchovies."), ("Leo", "I hate anchovies."), [0, 1]),
        (("Ben", "I told Ana of the anchovies."), ("Ana", "I hate anchovies."), [0, 1]),
        (("Ana", "I love anchovies."), ("Ana", "Ben says I hate anchovies."), [0, 1]),
    ],
)
def test_own_statement_precedes_reports_of_others(
    report: tuple[str, str], own: tuple[str, str], order: list[int]
) -> None:
    head = said((*report, 0.9), (*own, 0.7))

    judged = judge("Does Ana like anchovies?", head, model=Model(NEVER, NEVER))

    assert order_of(head, judged) == order
    assert judged.outdated_by == {}


def test_decision_is_before_the_suggestion_of_the_bot() -> None:
    turns = (
        ("Helper", "For Linnea's birthday I suggest a book about birds.", 0.9),
        ("Marit", "No, she gets a kite.", 0.75),
        ("Helper", "A book is a good present for a birthday, too.", 0.68),
    )
    head = said(*turns, session="call")

    assert order_of(head, judge("What does Linnea get for her birthday?", head))[0] == 1


@pytest.mark.parametrize(("question", "other", "told"), TOLD_AS_QUESTIONS, ids=texts)
def test_statement_as_a_question_keeps_its_score(question: str, other: str, told: str) -> None:
    head = said(("Marit", other, 0.7), ("Marit", told, 0.9))

    judged = judge(question, head)

    assert order_of(head, judged) == [1, 0]
    assert judged.verdicts[1] == []


def answered(text: str, speaker: str = "Marit") -> list[int]:
    """The order of a stored question, another turn, and what follows the question."""
    question, other, answer = said(
        ("Helper", "Should the dog food be delivered in the morning or in the evening?", 0.9),
        ("Marit", "The dog food is heavy.", 0.4),
        (speaker, text, 0.1),
        session="call",
    )
    head = [question, other, replace(answer, after=0)]
    return order_of(head, judge("When do I want the dog food delivered?", head))


def test_brief_answer_is_before_its_question() -> None:
    assert answered("In the evening.") == [2, 0, 1]


@pytest.mark.parametrize(
    ("text", "speaker"),
    [
        ("In the evening?", "Marit"),
        ("In the evening.", "Helper"),
        ("I was out all day, so I have no idea what the neighbours said about it.", "Marit"),
    ],
)
def test_turn_that_answers_nothing_stays_behind(text: str, speaker: str) -> None:
    assert answered(text, speaker) == [0, 1, 2]


def test_stored_question_counts_half() -> None:
    head = said(
        ("Marit", "Where is the ladder?", 0.9), ("Marit", "The ladder is in the shed.", 0.6)
    )

    judged = judge("Where is the ladder?", head, model=Model(NEVER, NEVER))

    assert [(term.factor, term.reason) for term in judged.verdicts[0]] == [
        (0.5, CurrencyReason.ASKS)
    ]


@pytest.mark.parametrize(
    "asked", ["0171 5550241", "oh one seven one five five five oh two four one"]
)
def test_part_that_others_share_is_not_the_number(asked: str) -> None:
    head = said(
        ("Marit", "Jon's number is 0171 5551024.", 0.9),
        ("Marit", "Eva's number is 0171 5550241.", 0.6),
    )

    assert order_of(head, judge(f"Whose number is {asked}?", head)) == [1, 0]


def test_newer_number_takes_no_place_of_the_asked_one() -> None:
    head = said(
        ("Marit", "Ana's number is 0171 5550142.", 0.6),
        ("Marit", "Jon's number is 0171 5551024.", 0.7),
    )

    judged = judge("Whose number is 0171 5550142?", head, model=Model(ALWAYS, ALWAYS))

    assert [[term.reason for term in own] for own in judged.verdicts] == [
        [],
        [CurrencyReason.LACKS_CODE],
    ]
    assert judged.outdated_by == {}


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("when am i off again", True),
        ("what time are the scaffolders coming", True),
        ("has anybody seen the drill", True),
        ("Is it certain that the bus comes?", True),
        ("What am I saying, a hundred and eighty grams.", False),
        ("when i was young we had a boat", False),
        ("what i need is a new bag", False),
        ("Isn't it lovely that Petar is getting married in Split?", False),
        ("Can you believe Anouk is getting married in Trieste?", False),
        ("Would you make a note that the goats get their shots on the eighteenth?", False),
        ("Remember how I said the spare trailer is at Kessler's?", False),
        ("Why did nobody tell me that the recital's in the church hall?", False),
    ],
)
def test_question_that_tells_is_no_question(text: str, asks: bool) -> None:
    assert TextTraits(text, ENGLISH).asks is asks


@pytest.mark.parametrize(
    ("question", "text", "counts_half"),
    [
        ("What is the guest password?", "What's the guest password? I am with Jette.", True),
        ("Wie ist das Gästekennwort?", "Sagt mir wer das Gästekennwort? Ich steh hier.", True),
        ("What is the guest wifi password?", "Guest wifi? The password is Seal.", False),
        ("What is the guest password?", "Where is the guest? Seal 914, the password.", False),
        ("Where is the spare key?", "Where is Otis? He has gone.", False),
        ("Where is the spare key now?", "Have you the key? I am at the shed.", False),
        (
            "When is the recital?",
            "Why did nobody tell me that the recital is off? I am cross.",
            False,
        ),
    ],
)
def test_question_with_a_remark_counts_half(question: str, text: str, counts_half: bool) -> None:
    judged = judge(question, said(("Marit", text, 0.9)), model=Model(NEVER, NEVER))

    assert [term.reason for term in judged.verdicts[0]] == [CurrencyReason.ASKS] * counts_half


def test_statement_without_the_asked_code_counts_half() -> None:
    head = said(
        ("Ana", "The part is on order.", 0.9), ("Ana", "Part 400-2142 is for the gate.", 0.8)
    )

    judged = judge("What is part 400-2142 for?", head, model=Model(NEVER, NEVER))

    assert [term.reason for term in judged.verdicts[0]] == [CurrencyReason.LACKS_CODE]


@pytest.mark.parametrize(
    ("question", "other", "asked"),
    [
        ("Who is called Szabo?", "the dishwasher is s a b o", "the cook is s z a b o"),
        ("Who is Meijer?", "The mate is spelled M-E-Y-E-R.", "The cook is spelled M-E-I-J-E-R."),
        ("Who is called Hamer?", "the wardrobe is h a m e l", "the sound man is h a m e r"),
        ("who is called t i l d e n", "The linesman is Tibor.", "The steward is Tilden."),
        ("Whose number begins with 0160?", "Tom has 0171 5550160.", "Emre has 0160 5550171."),
        ("Which orders start with 2025?", "Order 2026-2025 is slate.", "Order 2025-0980 is tar."),
    ],
)
def test_spelled_word_or_beginning_counts_whole(question: str, other: str, asked: str) -> None:
    head = said(("Ana", other, 0.9), ("Ana", asked, 0.8))

    judged = judge(question, head, model=Model(NEVER, NEVER))

    assert order_of(head, judged) == [1, 0]


def test_letters_that_nobody_asks_for_change_nothing() -> None:
    head = said(("Ana", "the cook is s z a b o", 0.8), ("Ana", "The cook is on leave.", 0.9))

    assert judge("Where is the cook?", head, model=Model(NEVER, NEVER)).verdicts == [[], []]


def test_closed_fact_counts_half_for_the_present() -> None:
    old, new = said(("Nora", "Nora lives in York.", 0.9), ("Nora", "Nora likes Leeds.", 0.5))
    head = [replace(old, closed_by=()), new]

    now, *then = (
        judge(question, head, model=Model(NEVER, NEVER))
        for question in ("Where does Nora live now?", *NOT_OF_THE_PRESENT)
    )

    assert [term.reason for term in now.verdicts[0]] == [CurrencyReason.CLOSED]
    assert [each.verdicts[0] for each in then] == [[], []]


def test_evidence_of_closed_fact_follows_the_newer() -> None:
    york, leeds = said(("Nora", "Nora lives in York.", 0.9), ("Nora", "Her flat is in Leeds.", 0.5))
    head = [replace(york, closed_by=(1,)), leeds]

    now, *then = (
        judge(question, head, model=Model(NEVER, NEVER))
        for question in ("Where does Nora live now?", *NOT_OF_THE_PRESENT)
    )

    assert order_of(head, now) == [1, 0]
    assert now.outdated_by == {0: 1}
    assert [order_of(head, each) for each in then] == [[0, 1], [0, 1]]
    assert [each.outdated_by for each in then] == [{}, {}]


def test_question_for_the_past_puts_closed_evidence_first() -> None:
    leeds, york = said(("Nora", "Her flat is in Leeds.", 0.9), ("Nora", "It is in York.", 0.5))
    head = [leeds, replace(york, closed_by=(0,))]

    judged = judge("Where did Nora live before?", head, model=Model(NEVER, NEVER))

    assert order_of(head, judged) == [1, 0]


def test_question_for_the_past_puts_the_older_first() -> None:
    head = said(
        ("Ana", "The office opens at nine now.", 0.9), ("Ana", "The office opens at ten now.", 0.95)
    )
    head = sorted(head, key=lambda each: -each.score)

    judged = judge("When did the office open before?", head, model=Model(ALWAYS, ALWAYS))

    assert order_of(head, judged) == [1, 0]
    assert judged.outdated_by == {}


def test_question_for_either_moves_nothing_but_corrections() -> None:
    plain = said(
        ("Ana", "The rent was 700 euros.", 0.9), ("Ana", "The rent is 800 euros now.", 0.8)
    )

    judged = judge("What was the rent?", plain, model=Model(ALWAYS, ALWAYS))

    assert order_of(plain, judged) == [0, 1]


def test_newest_is_first_of_several_that_outdate() -> None:
    head = said(
        ("Ana", "We open at eight.", 0.9),
        ("Ana", "We open at nine.", 0.8),
        ("Ana", "We open at ten.", 0.7),
    )

    judged = judge("When do we open?", head, model=Model(ALWAYS, ALWAYS))

    assert order_of(head, judged) == [2, 1, 0]
    assert judged.verdicts[2][0].by == 0


def test_statement_stored_later_is_newer_at_one_time() -> None:
    texts = ("We open at eight.", "We open at nine.")
    head = [
        Statement(
            text=text, said=NOON, stored=NOON + timedelta(microseconds=at), score=0.9 - at / 10
        )
        for at, text in enumerate(texts)
    ]

    judged = judge("When do we open?", head, model=Model(ALWAYS, ALWAYS))

    assert order_of(head, judged) == [1, 0]


def test_probability_is_zero_unless_one_is_newer() -> None:
    now = Statement(text="We open at nine.", said=NOON, score=1.0)

    found = Model(ALWAYS, ALWAYS).probabilities(Pairs(Question("When do we open?"), [now, now]))

    assert not found.any()


def test_vectors_change_the_probability() -> None:
    assert probability_with_cosine(0.9) > probability_with_cosine(0.0)


def test_equal_vectors_of_unlike_texts_are_left_out() -> None:
    unread = Pairs(OPENING, with_cosine(1.0)).features().of_both

    assert "cosine" not in unread
    assert "cosine" in Pairs(OPENING, with_cosine(0.9)).features().of_both


OPENING = Question("When do we open?")


def probability_with_cosine(cosine: float) -> float:
    """How probably the newer of two statements with vectors of this cosine outdates the older."""
    return float(shipped_model().probabilities(Pairs(OPENING, with_cosine(cosine)))[0, 1])


def with_cosine(cosine: float) -> list[Statement]:
    """Two statements without a common word, whose vectors have this cosine."""
    older, newer = said(("Ana", "We open at eight.", 0.9), ("Ana", "From May on it is nine.", 0.8))
    along = np.array([cosine, np.sqrt(1 - cosine**2)])
    return [replace(older, vector=np.array([1.0, 0.0])), replace(newer, vector=along)]


def test_judgement_of_no_candidates_is_empty() -> None:
    assert judge("When do we open?", []) == Judgement(())
