"""Which statements are about one subject, and which are about the speaker."""

from __future__ import annotations

import pytest

from serving.domain.items.records import Segment
from serving.domain.ranking.subjects import is_about_asker, newest_by_subject, told_of_oneself
from tests.support.builders import NOON, days, fact, segment


def said(*texts: str, speaker: str = "Mia") -> list[Segment]:
    """What somebody said on days that follow each other."""
    return [
        segment(f"{speaker}{n}", text, speaker=speaker, event_time=NOON + days(n))
        for n, text in enumerate(texts)
    ]


def kept(*segments: Segment) -> list[str]:
    return [each.text for each in newest_by_subject(segments)]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("My phone number is 555 1234.", "My new phone number is 555 9876."),
        ("My favourite colour is blue.", "My favourite colour is green these days."),
        ("I like fish.", "I don't like fish any more."),
        ("We meet on 14 May.", "We meet on 15 May."),
        ("Ich wohne in Leipzig.", "ich WOHNE in Leipzig"),
        ("Nos vemos el lunes en Porto.", "Nos vemos el martes en Porto."),
    ],
)
def test_newest_of_one_subject_stands(older: str, newer: str) -> None:
    assert kept(*said(older, newer)) == [newer]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I am allergic to penicillin.", "I am allergic to nuts."),
        ("I live in Lisbon.", "I work in Porto."),
        ("My flight to Rome is at nine.", "My flight to Oslo is at ten."),
        ("My sister Ana lives in Leeds.", "My brother Tom lives in York."),
        ("Tom says that the bridge is closed to cars until May.", "The bridge."),
        ("他不来", "我在里斯本"),
    ],
)
def test_statements_of_two_subjects_both_stand(older: str, newer: str) -> None:
    assert kept(*said(older, newer)) == [newer, older]


def test_another_speaker_outdates_nothing() -> None:
    [mine] = said("I live in Leeds.")
    [theirs] = said("I live in Leeds!", speaker="Tom")
    again = segment("again", "I LIVE in Leeds", speaker="  tom ", event_time=NOON + days(1))

    assert kept(mine, theirs, again) == ["I LIVE in Leeds", "I live in Leeds."]


@pytest.mark.parametrize("text", ["What time is it?", "I am.", "...", "Where do you live?"])
def test_segments_that_tell_nothing_are_left_out(text: str) -> None:
    assert kept(*said(text)) == []


def test_evidence_that_repeats_its_fact_is_left_out() -> None:
    short, long, other = said(
        "I live in Porto.",
        "I live in Porto, above the bakery, and the oven wakes me.",
        "I live in Porto. ",
    )
    lives = fact("f", "Mia", "lives in", "Porto", evidence=(short.id, long.id))

    assert newest_by_subject([short, long], [lives]) == [long]
    assert newest_by_subject([other], [lives]) == [other]


@pytest.mark.parametrize(
    ("text", "is_about"),
    [
        ("What do you know about me?", True),
        ("so what do you actually know about me", True),
        ("Tell me everything you've got on me.", True),
        ("What have I told you about myself?", True),
        ("what information do you have about me", True),
        ("Who am I, as far as you know?", True),
        ("What do you know about me so far?", True),
        ("Do you remember me?", True),
        ("was weißt du über mich", True),
        ("Was habe ich dir über mich erzählt?", True),
        ("¿Qué sabes de mí?", True),
        ("What do you know about Mel?", False),
        ("What does Mel know about me?", False),
        ("What do you know about me and Mel?", False),
        ("What did you say to Mel about me?", False),
        ("What did you ask me about the bus?", False),
        ("Who am I meeting?", False),
        ("Tell me about the trip.", False),
        ("Was weißt du über Mel?", False),
    ],
)
def test_question_for_the_asker_is_known(text: str, is_about: bool) -> None:
    assert is_about_asker(text) is is_about


@pytest.mark.parametrize(
    "text",
    [
        "I run a dairy farm with sixty cows.",
        "i've got two boys and i bring them up on my own",
        "I was a ward sister for forty years.",
        "I am a widow, and I am afraid of stairs.",
        "My name is Oda.",
        "Ich wohne in Leipzig.",
        "Soy alérgica a las nueces.",
    ],
)
def test_statement_that_lasts_is_before_the_rest(text: str) -> None:
    own = said("I found an old glove.", "I have to call the school.", text, "The stew was salty.")

    told = [each.text for each in told_of_oneself(own)]

    assert told == [text, "I found an old glove.", "I have to call the school."]


def test_bot_tells_nothing_of_itself() -> None:
    bot = said(
        "I will remember that for you.",
        "I have noted what you told me about yourself.",
        "I know that now, I will remember it.",
        "I'm sorry, I cannot do that for you.",
        speaker="Bot",
    )

    assert told_of_oneself([*bot, *said("I am a nurse.")]) == said("I am a nurse.")
