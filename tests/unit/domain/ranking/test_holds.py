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

_NEVER = Weights(-20.0, dict.fromkeys(shipped_model().without_vectors.of, 0.0))
_ALWAYS = Weights(20.0, _NEVER.of)
NEVER, ALWAYS = Model(_NEVER, _NEVER), Model(_ALWAYS, _ALWAYS)


SCORES = (0.9, 0.7, 0.5)


def said(*turns: str, scores: Sequence[float] = SCORES, session: str = "") -> list[Statement]:
    """Turns ("Ana: Yes."), best first, each said seven hours after the one before it."""
    said = [turn.rpartition(": ") for turn in turns]
    return [
        Statement(
            text=text,
            said=NOON + place * timedelta(hours=7),
            score=score,
            speaker=speaker or "Marit",
            session=session,
        )
        for place, ((speaker, _, text), score) in enumerate(zip(said, scores, strict=False))
    ]


def order_of(head: Sequence[Statement], judged: Judgement) -> list[int]:
    values = [
        each.score * math.prod(term.factor for term in terms)
        for each, terms in zip(head, judged.verdicts, strict=True)
    ]
    assert len(set(values)) == len(values), "no two have one score, so that no order is by chance"
    return sorted(range(len(head)), key=lambda place: -values[place])


def reasons(judged: Judgement) -> list[list[CurrencyReason]]:
    return [[term.reason for term in terms] for terms in judged.verdicts]


ADDED = [
    ("What am I allergic to?", "I'm allergic to penicillin.", "I'm now allergic to nuts too."),
    ("When do I take my pills?", "I take a red pill at seven.", "I now also take one at six."),
    ("When is the dentist?", "The dentist is at ten.", "I have one more dentist now, at nine."),
]
OF_ANOTHER = [
    ("When is Ana's flight?", "Ana: My flight is at seven.", "Ben: My flight was moved to nine."),
    ("Which room is Ana in?", "Ana: I'm in room 12.", "Ben: They put me in room 15 instead."),
    ("Who fixes our boiler?", "Fey fixes our boiler.", "Lin now fixes my mother's boiler."),
    ("What is my locker code?", "My locker code is 5512.", "My locker has a code, by the stairs."),
    ("Who eats meat?", "Joren eats meat.", "Willem never eats meat."),
    ("Where does Al Petersen live?", "Al Petersen lives in Rome.", "Al Petersen has a parrot."),
]
CORRECTED = [
    ("What is my shoe size?", "My shoe size is 41.", "I lied, it's 42."),
    ("When does Bo land?", "Bo lands at nine.", "Wait, I had the wrong ticket, it's ten."),
    ("What is the alarm code?", "The alarm code is 7315.", "Sorry, I misspoke, it is 7351."),
    ("At which gate is the party?", "The party is at gate B.", "Oops, wrong, it's gate D."),
    ("How high was the deposit?", "The deposit was 300 euros.", "Not 300, it was 350."),
]
TAKEN_BACK = [
    ("How old is Otis?", "Otis is six.", "I got that wrong, Otis is five."),
    ("Which tiles do we take?", "We take slate tiles.", "Forget what I said, we take white tiles."),
    ("What is the wifi key?", "The wifi key is ash-seven.", "I misread it, the key is elm-seven."),
    ("Where is Mrs Osei?", "Mrs Osei is at number 14.", "I misread it, Mrs Osei is at number 41."),
    ("Wie alt ist Otis?", "Otis ist sechs.", "Ich habe mich vertan, Otis ist fünf."),
    ("¿Qué número tiene Ana?", "Ana tiene el número 14.", "Corrección, Ana tiene el número 41."),
]
SOMETHING_ELSE_TAKEN_BACK = [
    ("How old is Otis?", "Otis is six.", "I got that wrong, Ida is five."),
    ("What milk does Bas drink?", "Bas drinks oat milk.", "Correction, Jo drinks soy milk."),
    ("Who is our dentist?", "Our dentist is Brandt.", "I mixed it up, the dentist is on Tuesday."),
    ("Where is Mrs Osei?", "Mrs Osei is at number 14.", "I misread it, Mrs Osei comes at four."),
    ("When is the choir?", "The choir is at nine.", "I was wrong, there is another choir at ten."),
]
NOT_OF_THE_PRESENT = ("Where did Nora live before?", "What was Nora's town?")


@pytest.mark.parametrize(("question", "older", "newer"), ADDED + OF_ANOTHER)
def test_statement_that_still_holds_is_not_marked(question: str, older: str, newer: str) -> None:
    assert judge(question, said(older, newer)).outdated_by == {}


@pytest.mark.parametrize(("question", "older", "newer"), OF_ANOTHER)
def test_statement_about_another_takes_no_place(question: str, older: str, newer: str) -> None:
    head = said(older, newer)

    assert order_of(head, judge(question, head)) == [0, 1]


@pytest.mark.parametrize(("question", "older", "newer"), ADDED + OF_ANOTHER[:3])
def test_sure_model_marks_no_addition_or_other_person(
    question: str, older: str, newer: str
) -> None:
    head = said(older, newer, scores=(0.9, 0.8))

    judged = judge(question, head, model=ALWAYS)

    assert order_of(head, judged) == [1, 0]
    assert judged.outdated_by == {}


@pytest.mark.parametrize(
    ("question", "older", "newer", "marked"),
    [
        ("When do we open?", "We open at eight.", "We open at nine.", {0: 1}),
        ("When is the flight?", "Ana: My flight is at seven.", "Ben: My flight is at nine.", {}),
        ("When is Ana's flight?", "Ana: My flight is at one.", "Lea: The flight is at two.", {}),
        ("When is the flight?", "The flight is at one.", "For my boss's flight it is two.", {}),
        ("When is the flight?", "The flight is at one.", "The flight of Ben is at two.", {}),
        ("When is the flight to Goa on Monday?", "It is at seven.", "It is at nine.", {}),
    ],
    ids=["former", "by-another", "named-is-gone", "of-another", "names-another", "no-answer"],
)
def test_sure_model_marks_former_answers_alone(
    question: str, older: str, newer: str, marked: dict[int, int]
) -> None:
    head = said(older, newer)

    assert judge(question, head, model=ALWAYS).outdated_by == marked
    documents = [replace(each, is_turn=False) for each in head]
    assert judge(question, documents, model=ALWAYS).outdated_by == {}


@pytest.mark.parametrize(("question", "wrong", "right"), CORRECTED)
def test_correction_after_noted_is_first(question: str, wrong: str, right: str) -> None:
    head = said(wrong, "Helper: Noted.", right, scores=(0.9, 0.2, 0.35), session="call")

    assert order_of(head, judge(question, head))[0] == 2


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        ("when is the bored meeting", "The board meeting is on the ninth.", "No, two more bags."),
        ("Where is the setlist?", "The set-list is on the piano.", "No need, I can see the sky."),
        ("Who is the roofer?", "The roofer is called Amsel.", "Sorry, that came out wrong."),
    ],
)
def test_correction_of_something_else_takes_no_place(question: str, older: str, newer: str) -> None:
    head = said(older, newer, scores=(0.8, 0.4), session="call")

    assert order_of(head, judge(question, head, model=ALWAYS)) == [0, 1]


def test_correction_of_one_call_is_first_and_marks() -> None:
    wrong, right = "The alarm code is 7315.", "Sorry, I misread it, the alarm code is 7351 now."
    head = said(wrong, "Helper: Noted, 7315.", right, scores=(0.9, 0.4, 0.7), session="call")

    judged = judge("What is the alarm code?", head)

    assert order_of(head, judged)[0] == 2
    assert judged.outdated_by[0] == 2


@pytest.mark.parametrize(("question", "wrong", "right"), TAKEN_BACK)
def test_statement_taken_back_is_outdated_days_later(question: str, wrong: str, right: str) -> None:
    others = ("We have a cat.", "We have hens.", "We have goldfish.")
    head = said(wrong, *others, right, scores=(0.9, 0.15, 0.14, 0.18, 0.7))

    judged = judge(question, head, model=NEVER)

    assert order_of(head, judged)[:2] == [4, 0]
    assert judged.outdated_by == {0: 4}


@pytest.mark.parametrize(
    ("question", "held", "other"),
    [
        *SOMETHING_ELSE_TAKEN_BACK,
        ("How old is Otis?", "Ana: Otis is six.", "Ben: I was wrong, Otis is five."),
    ],
)
def test_statement_stays_when_something_else_is_retracted(
    question: str, held: str, other: str
) -> None:
    head = said(held, other)

    judged = judge(question, head, model=NEVER)

    assert order_of(head, judged) == [0, 1]
    assert judged.outdated_by == {}


@pytest.mark.parametrize(
    ("report", "own", "order"),
    [
        ("Ben: Ana told me she loves anchovies.", "Ana: I hate anchovies.", [1, 0]),
        ("Ben: Ana says she loves anchovies.", "Ana: Yes to anchovies.", [1, 0]),
        ("Ben: Ana told me she loves anchovies.", "Ana: I hate olives.", [0, 1]),
        ("Ben: Ana told me she loves anchovies.", "Leo: I hate anchovies.", [0, 1]),
        ("Ben: I told Ana of the anchovies.", "Ana: I hate anchovies.", [0, 1]),
        ("Ana: I love anchovies.", "Ana: Ben says I hate anchovies.", [0, 1]),
    ],
)
def test_own_statement_precedes_reports_of_others(report: str, own: str, order: list[int]) -> None:
    head = said(report, own)

    judged = judge("Does Ana like anchovies?", head, model=NEVER)

    assert order_of(head, judged) == order
    assert judged.outdated_by == {}


def test_decision_is_before_the_suggestion_of_the_bot() -> None:
    head = said(
        "Helper: For Linnea's birthday I suggest a book about birds.",
        "No, she gets a kite.",
        "Helper: A book is a good present for a birthday, too.",
        scores=(0.9, 0.75, 0.68),
        session="call",
    )

    assert order_of(head, judge("What does Linnea get for her birthday?", head))[0] == 1


@pytest.mark.parametrize(
    ("question", "other", "told"),
    [
        ("Where are we moving?", "Lin is moving her desk.", "Did I tell you that we are moving?"),
        (
            "What is Bas allergic to?",
            "Bas eats nuts.",
            "You know Bas is allergic to kiwi, don't you?",
        ),
        (
            "When does our holiday start?",
            "Our holiday was wet.",
            "Our holiday starts now, doesn't it?",
        ),
        (
            "When is the boiler man here?",
            "He was here.",
            "Could you note that he is here on Friday?",
        ),
    ],
)
def test_statement_as_a_question_keeps_its_score(question: str, other: str, told: str) -> None:
    head = said(other, told, scores=(0.7, 0.9))

    judged = judge(question, head)

    assert order_of(head, judged) == [1, 0]
    assert judged.verdicts[1] == []


@pytest.mark.parametrize(
    ("turn", "order"),
    [
        ("In the evening.", [2, 0, 1]),
        ("In the evening?", [0, 1, 2]),
        ("Helper: In the evening.", [0, 1, 2]),
        ("I was out all day, so I have no idea what the neighbours said about it.", [0, 1, 2]),
    ],
)
def test_brief_answer_is_before_its_question(turn: str, order: list[int]) -> None:
    question = "Helper: Should the dog food be delivered in the morning or in the evening?"
    turns = (question, "The dog food is heavy.", turn)
    *others, answer = said(*turns, scores=(0.9, 0.4, 0.1), session="call")
    head = [*others, replace(answer, after=0)]

    assert order_of(head, judge("When do I want the dog food delivered?", head)) == order


def test_stored_question_counts_half() -> None:
    head = said("Where is the ladder?", "The ladder is in the shed.")

    judged = judge("Where is the ladder?", head, model=NEVER)

    assert judged.verdicts[0] == [(0.5, CurrencyReason.ASKS, None)]


@pytest.mark.parametrize(
    "asked", ["0171 5550241", "oh one seven one five five five oh two four one"]
)
def test_part_that_others_share_is_not_the_number(asked: str) -> None:
    head = said("Jon's number is 0171 5551024.", "Eva's number is 0171 5550241.")

    assert order_of(head, judge(f"Whose number is {asked}?", head)) == [1, 0]


def test_newer_number_takes_no_place_of_the_asked_one() -> None:
    turns = ("Ana's number is 0171 5550142.", "Jon's number is 0171 5551024.")

    judged = judge("Whose number is 0171 5550142?", said(*turns, scores=(0.6, 0.7)), model=ALWAYS)

    assert reasons(judged) == [[], [CurrencyReason.LACKS_CODE]]
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
        ("When is the recital?", "Why did nobody tell me that the recital is off? I'm sad.", False),
    ],
)
def test_question_with_a_remark_counts_half(question: str, text: str, counts_half: bool) -> None:
    judged = judge(question, said(text), model=NEVER)

    assert reasons(judged) == [[CurrencyReason.ASKS] * counts_half]


def test_statement_without_the_asked_code_counts_half() -> None:
    head = said("The part is on order.", "Part 400-2142 is for the gate.", scores=(0.9, 0.8))

    judged = judge("What is part 400-2142 for?", head, model=NEVER)

    assert reasons(judged)[0] == [CurrencyReason.LACKS_CODE]


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
    head = said(other, asked, scores=(0.9, 0.8))

    assert order_of(head, judge(question, head, model=NEVER)) == [1, 0]


def test_letters_that_nobody_asks_for_change_nothing() -> None:
    head = said("the cook is s z a b o", "The cook is on leave.", scores=(0.8, 0.9))

    assert judge("Where is the cook?", head, model=NEVER).verdicts == [[], []]


def test_closed_fact_counts_half_for_the_present() -> None:
    old, new = said("Nora lives in York.", "Nora likes Leeds.", scores=(0.9, 0.5))
    head = [replace(old, closed_by=()), new]

    assert reasons(judge("Where does Nora live now?", head, model=NEVER))[0] == [
        CurrencyReason.CLOSED
    ]
    for question in NOT_OF_THE_PRESENT:
        assert judge(question, head, model=NEVER).verdicts[0] == []


def test_evidence_of_closed_fact_follows_the_newer() -> None:
    york, leeds = said("Nora lives in York.", "Her flat is in Leeds.", scores=(0.9, 0.5))
    head = [replace(york, closed_by=(1,)), leeds]

    now = judge("Where does Nora live now?", head, model=NEVER)

    assert (order_of(head, now), now.outdated_by) == ([1, 0], {0: 1})
    for question in NOT_OF_THE_PRESENT:
        then = judge(question, head, model=NEVER)
        assert (order_of(head, then), then.outdated_by) == ([0, 1], {})


def test_question_for_the_past_puts_closed_evidence_first() -> None:
    leeds, york = said("Her flat is in Leeds.", "It is in York.", scores=(0.9, 0.5))
    head = [leeds, replace(york, closed_by=(0,))]

    assert order_of(head, judge("Where did Nora live before?", head, model=NEVER)) == [1, 0]


def test_question_for_the_past_puts_the_older_first() -> None:
    nine, ten = said(
        "The office opens at nine now.", "The office opens at ten now.", scores=(0.9, 0.95)
    )
    head = [ten, nine]

    judged = judge("When did the office open before?", head, model=ALWAYS)

    assert order_of(head, judged) == [1, 0]
    assert judged.outdated_by == {}


def test_question_for_either_moves_nothing_but_corrections() -> None:
    plain = said("The rent was 700 euros.", "The rent is 800 euros now.", scores=(0.9, 0.8))

    assert order_of(plain, judge("What was the rent?", plain, model=ALWAYS)) == [0, 1]


def test_newest_is_first_of_several_that_outdate() -> None:
    head = said("We open at eight.", "We open at nine.", "We open at ten.", scores=(0.9, 0.8, 0.7))

    judged = judge("When do we open?", head, model=ALWAYS)

    assert order_of(head, judged) == [2, 1, 0]
    assert judged.verdicts[2][0].by == 0


def test_statement_stored_later_is_newer_at_one_time() -> None:
    head = [
        replace(each, said=NOON, stored=NOON + timedelta(microseconds=place))
        for place, each in enumerate(said("We open at eight.", "We open at nine."))
    ]

    assert order_of(head, judge("When do we open?", head, model=ALWAYS)) == [1, 0]


OPENING = Question("When do we open?")


def test_probability_is_zero_unless_one_is_newer() -> None:
    [now] = said("We open at nine.")

    assert not ALWAYS.probabilities(Pairs(OPENING, [now, now])).any()


def with_cosine(cosine: float) -> Pairs:
    """Two statements without a common word, whose vectors have this cosine."""
    older, newer = said("We open at eight.", "From May on it is nine.", scores=(0.9, 0.8))
    along = np.array([cosine, np.sqrt(1 - cosine**2)])
    older, newer = replace(older, vector=np.array([1.0, 0.0])), replace(newer, vector=along)
    return Pairs(OPENING, [older, newer])


def test_vectors_change_the_probability() -> None:
    alike, unlike = (shipped_model().probabilities(with_cosine(cosine)) for cosine in (0.9, 0.0))

    assert alike[0, 1] > unlike[0, 1]


def test_equal_vectors_of_unlike_texts_are_left_out() -> None:
    assert "cosine" not in with_cosine(1.0).features().of_both
    assert "cosine" in with_cosine(0.9).features().of_both


def test_judgement_of_no_candidates_is_empty() -> None:
    assert judge("When do we open?", []) == Judgement(())
