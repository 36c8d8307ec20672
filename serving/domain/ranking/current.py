"""What answers: statements before questions, and what holds before what once held.

Two statements about one thing are both near to a question, and the older one is often nearer: it
introduced the subject, and the newer one only says what is different. No model reads them here.
What there is are their times, their scores, and their words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from serving.domain.languages import ENGLISH
from serving.domain.ranking.diversity import jaccard, words_of

HEAD = 16
"""How many of the first candidates are rearranged. What follows them keeps its place."""

QUESTION_SHARE = 0.5
"""What the score of a stored question counts: it has the words of the question, and no answer."""

REPEATED = 0.8
"""The share of common words from which a text repeats the question."""

NEEDED_SHARE = (math.inf, 0.6, 0.4, 0.25)
"""The share of the older statement's score that a newer one needs to take its place, by how many of
three things speak for it: the question has one answer at a time, the newer statement has words of
change, and it has a value of the kind that is asked for. Without any nothing is moved."""

LIKENESS = 0.1
"""The cosine of their words from which two statements are about one thing."""

MAX_WORDS = 20
"""Who says that something has changed says little besides; longer texts take nobody's place."""

STEM = 5
"""Words are alike if they begin with the same letters: "visit" and "visits"."""

_ONLY_QUESTIONS = re.compile(r"(?:[^.!?\uff1f\u061f]*[?\uff1f\u061f]+\s*)+")
_QUESTION_MARK = re.compile(r"[?\uff1f\u061f]")


@dataclass(frozen=True, slots=True)
class Arranged:
    """The new order of candidates, as their former places, best first.

    `outdated_by` has, for each place that lost its rank to a newer statement, that one's place.
    """

    order: list[int]
    outdated_by: dict[int, int] = field(default_factory=dict)


class Statement:
    """A candidate as this module sees it: its text, when it was said, and its score."""

    def __init__(self, text: str, said: datetime, score: float) -> None:
        self.text = text
        self.said = said
        self.score = score

    @cached_property
    def words(self) -> frozenset[str]:
        """Its distinct words."""
        return words_of(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The beginnings of its words, without stop words."""
        return frozenset(word[:STEM] for word in self.words - ENGLISH.stop_words)

    def is_like(self, other: Statement) -> bool:
        """Whether both are about one thing."""
        common = len(self.stems & other.stems)
        return common > 0 and common >= LIKENESS * math.sqrt(len(self.stems) * len(other.stems))

    @cached_property
    def has_question(self) -> bool:
        """Whether it asks something, besides what it states."""
        return _QUESTION_MARK.search(self.text) is not None

    @cached_property
    def tells_of_change(self) -> bool:
        """Whether it has words of change."""
        return ENGLISH.changes.search(self.text) is not None


class Question:
    """The question: what kind of answer it has."""

    def __init__(self, text: str) -> None:
        self._words = words_of(text)
        self.asks_for_past = ENGLISH.past.search(text) is not None
        self._has_one_answer = ENGLISH.single.search(text) is not None
        self._values = [value for asks, value in ENGLISH.values if asks.search(text)]

    def is_asked_by(self, stored: Statement) -> bool:
        """Whether a stored text only asks something, or repeats this question."""
        return (
            (stored.has_question and _ONLY_QUESTIONS.fullmatch(stored.text) is not None)
            or ENGLISH.questions.fullmatch(stored.text) is not None
            or jaccard(stored.words, self._words) >= REPEATED
        )

    def needed_share(self, newer: Statement) -> float:
        """The share of an older statement's score that a newer one needs to take its place."""
        values = any(value.search(newer.text) for value in self._values)
        return NEEDED_SHARE[self._has_one_answer + newer.tells_of_change + values]


def current_first(question: str, head: Sequence[Statement]) -> Arranged:
    """Puts statements before stored questions, and newer ones in the place of those they outdate.

    A newer statement takes the place of an older one if it is short, asks nothing, is about the
    same thing, and has a large enough share of the older one's score (`NEEDED_SHARE`). The older
    one follows. A question for the past leaves them in place.

    Args:
        question: What was asked.
        head: Statements, best first, those of `HEAD`.
    """
    asked = Question(question)
    scores = [
        each.score * QUESTION_SHARE if asked.is_asked_by(each) else each.score for each in head
    ]
    places, outdated_by = list(scores), dict[int, int]()
    if not asked.asks_for_past:
        for newer, older in _outdating(asked, head, scores):
            places[newer] = max(places[newer], scores[older])
            latest = outdated_by.setdefault(older, newer)
            if head[latest].said < head[newer].said:
                outdated_by[older] = newer
    order = sorted(
        range(len(head)),
        key=lambda place: (
            -places[place],
            # What took a place is before what had it, the newest first.
            -head[place].said.timestamp() if places[place] > scores[place] else math.inf,
            place,
        ),
    )
    return Arranged(order, outdated_by)


def _outdating(
    asked: Question, head: Sequence[Statement], scores: Sequence[float]
) -> list[tuple[int, int]]:
    """Pairs of a newer statement, and an older one before it that it outdates."""
    pairs = []
    for newer, statement in enumerate(head):
        before = [
            older
            for older, other in enumerate(head)
            if other.said < statement.said and scores[older] > scores[newer]
        ]
        if not before or statement.has_question or len(statement.stems) > MAX_WORDS:
            continue
        # Before the words of change are searched for, which takes longer.
        alike = [older for older in before if statement.is_like(head[older])]
        if alike:
            share = asked.needed_share(statement)
            pairs += [(newer, older) for older in alike if scores[newer] >= share * scores[older]]
    return pairs
