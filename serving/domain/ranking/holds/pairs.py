"""The features of an older and a newer statement: does the newer outdate the older?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.domain.ranking.holds.likeness import likeness
from serving.domain.ranking.holds.question import Question
from serving.domain.ranking.holds.statement import (
    NUMBERS,
    Statement,
    stem_of,
    traits_of,
    words_of_speaker,
)

HEAD = 16
"""The number of first candidates that are rearranged. Later ones keep their places."""

SOON_S = 90.0
"""The seconds within which statements are said in one breath."""

SESSION_S = 1200.0
"""The seconds within which statements are of one conversation, where none is given."""

DAY_S = 86400.0

SHORT = 0.4
"""The `length` of a text of eight words, which says little besides."""

SAME = 0.999
"""From which cosine two vectors are the same; they are stored in float16."""

LEAST, MOST = 1e-9, 3.0
"""Bounds of scores and sums that others are divided by, and of the ratio of two scores."""

Vector = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Features:
    """The features of pairs by name: of the older one, of the newer one, and of both.

    Those of one are a number for each candidate, those of both a matrix (older, newer).
    """

    of_older: Mapping[str, Vector]
    of_newer: Mapping[str, Vector]
    of_both: Mapping[str, Vector]

    def of_pairs(self, older: NDArray[np.intp], newer: NDArray[np.intp]) -> dict[str, Vector]:
        """The features of these pairs."""
        return {
            **{name: each[older] for name, each in self.of_older.items()},
            **{name: each[newer] for name, each in self.of_newer.items()},
            **{name: each[older, newer] for name, each in self.of_both.items()},
        }


class Pairs:
    """All pairs of two candidates of a question; `later` tells which are older and newer.

    Matrices have a row for each older statement, and a column for each newer one.
    """

    def __init__(self, asked: Question, head: Sequence[Statement]) -> None:
        self.asked, self.head = asked, head
        self.traits = [traits_of(each.text, asked.language.name) for each in head]
        numbers = np.array([each.numbers for each in self.traits]).T
        self.numbers: dict[str, Vector] = dict(zip(NUMBERS, numbers, strict=True))
        said = np.array([each.said.timestamp() for each in head])
        self.gaps = said - said[:, None]
        stored = np.array([each.order[1].timestamp() for each in head])
        self.later = (self.gaps > 0) | ((self.gaps == 0) & (stored > stored[:, None]))
        self.scores = np.array([each.score for each in head])
        self.same_speaker = _equal([each.speaker for each in head])
        sessions = [each.session for each in head]
        self.session = (np.abs(self.gaps) < SESSION_S) | (
            _equal(sessions) & np.array(sessions, dtype=bool)
        )
        corrects = self.numbers["corrects"] > 0
        self.corrections = self.later & self.session & self.same_speaker & corrects
        self.asks = np.array([asked.repeats_question(each) for each in self.traits])
        self._add_words()
        self._add_names()

    def _add_words(self) -> None:
        """Words count by how few of the candidates have them."""
        asked = len(self.asked.stems)
        rows = _rows([each.stems for each in self.traits], self.asked.stems)
        having = rows.sum(0)
        spread = np.log((len(self.head) + 1) / np.where(having > 0, having + 0.5, 1.0))
        weighted = rows * spread
        self.whole = float(spread[:asked].sum()) or 1.0
        self.common = weighted @ rows.T
        self.common_asked = weighted[:, :asked] @ rows[:, :asked].T
        self.total = weighted.sum(1)
        self.share = weighted[:, :asked].sum(1) / self.whole

    def _add_names(self) -> None:
        speakers = [words_of_speaker(each.speaker) for each in self.head]
        known = frozenset[str]().union(*speakers)
        self.asked_names = self.asked.names | (known & self.asked.words)
        self.names = [each.names | (known & each.words) for each in self.traits]
        self.own = [
            speaker if each.signs["mine"] else frozenset[str]()
            for speaker, each in zip(speakers, self.traits, strict=True)
        ]
        self.persons = [a | b for a, b in zip(self.names, self.own, strict=True)]
        self.is_by_named = np.array([not self.asked_names.isdisjoint(each) for each in speakers])

    def retractions(self, least: float) -> Vector:
        """Retractions: somebody takes back a statement about the question, and says it anew.

        The older one has a share `least` of the words of the question, and the newer one as many of
        them, or that share, where both have values of the same kinds. The newer one has that share
        of the words of the older one too, adds nothing, and keeps the name in the question. Of
        several older ones it is what has most in common with the newer one.
        """
        takes_back = (self.numbers["retracts"] > 0) & (self.numbers["adds"] == 0)
        able: Vector = self.later & self.same_speaker & takes_back & (self.share >= least)[:, None]
        able &= self.common >= least * self.total[:, None]
        for older, newer in np.argwhere(able).tolist():
            before, after = self.traits[older], self.traits[newer]
            kinds = before.kinds_of_values
            enough = least if kinds and kinds == after.kinds_of_values else self.share[older]
            keeps_name = self.asked.names & before.words <= after.words
            able[older, newer] = keeps_name and self.share[newer] >= enough
        common = np.where(able, self.common, 0.0)
        most: Vector = (common > 0) & (common == common.max(0))
        return most

    def other_corrections(self) -> Vector:
        """Corrections of something else: "No, there are two more bags behind the rice".

        The newer one shares no word with the older one or the question, and lacks the kinds of
        values in question that the older one has, or all of its kinds if it has none of these:
        what corrects something without its name gives another value of it.
        """
        corrects = self.numbers["corrects"] > 0
        other: Vector = self.later & self.same_speaker & (self.common == 0)
        other &= (corrects & (self.share == 0))[None, :]
        for older, newer in np.argwhere(other).tolist():
            kinds = self.traits[older].kinds_of_values
            wanted = kinds.intersection(self.asked.values) or kinds
            other[older, newer] = wanted.isdisjoint(self.traits[newer].kinds_of_values)
        return other

    def brief_answers(self) -> list[tuple[int, int]]:
        """Answers to a stored question of another in a few words, and the question.

        "In the evening" has no word of what was asked, but what asks it has all.
        """
        brief = self.numbers["length"] <= SHORT
        return [
            (place, each.after)
            for place, each in enumerate(self.head)
            if each.after is not None
            and brief[place]
            and self.asks[each.after]
            and not self.asks[place]
            and not self.same_speaker[place, each.after]
        ]

    def firsthand(self) -> Vector:
        """Statements of a person that somebody else has reported of that person.

        The newer one has the words of the question that the older one has, but for the name.
        """
        name = self.asked.language.name
        named = {stem_of(word, name) for word in self.asked_names}
        asked = self.asked.stems - named
        about = np.array([each.subject in named for each in self.traits])
        reports = self.numbers["reports"] > 0
        able: Vector = self.later & (about & reports & ~self.is_by_named)[:, None]
        able &= (self.is_by_named & ~reports)[None, :]
        for older, newer in np.argwhere(able).tolist():
            topic = self.traits[older].stems & asked
            able[older, newer] = bool(topic) and topic <= self.traits[newer].stems
        return able

    def features(self) -> Features:
        """The features of all pairs."""
        of_both = self._of_both() | self._by_vector()
        return Features(self._of_older(), self._of_newer(), of_both)

    def _of_older(self) -> dict[str, Vector]:
        lengths = self.numbers["length"]
        return {
            "o_negates": self.numbers["negates"],
            "o_changes": self.numbers["changes"],
            "o_length": lengths,
            "o_short": lengths <= SHORT,
            "o_near": np.array([each.is_near for each in self.head]),
            "o_place": np.arange(len(self.head)) / HEAD,
            "o_by_named": self.is_by_named,
            "o_subject_asked": np.array([each.subject in self.asked.stems for each in self.traits]),
        }

    def _of_newer(self) -> dict[str, Vector]:
        counted = np.where(self.asks, 0.0, self.share)
        since = (self.later & (counted >= counted[:, None])) @ counted
        after = (self.later & (self.share >= self.share[:, None])).sum(1)
        return {
            "n_supposes": self.numbers["supposes"],
            "n_reports": self.numbers["reports"],
            "n_jests": self.numbers["jests"],
            "n_settles": self.numbers["settles"],
            "n_asks": self.asks,
            "n_length": self.numbers["length"],
            "n_long": self.numbers["long"],
            "n_near": np.array([each.is_near for each in self.head]),
            "n_score": self.scores / (self.scores.max() or 1.0),
            "n_place": np.arange(len(self.head)) / HEAD,
            "n_share": self.share,
            "n_since": since / (counted.sum() or 1.0),
            "n_later": after / HEAD,
        }

    def _of_both(self) -> dict[str, Vector]:
        scores = np.maximum(self.scores, LEAST)
        ratio = np.minimum(scores / scores[:, None], MOST)
        union = np.maximum(self.total[:, None] + self.total - self.common, LEAST)
        rest = (self.common - self.common_asked) / union
        root = np.sqrt(self.total)
        alike = self.common / np.maximum(root[:, None] * root, LEAST)
        has_value = np.array([self.asked.has_value(each) for each in self.traits])
        need = self.asked.has_one_answer + self.numbers["changes"] + has_value
        corrects = self.numbers["corrects"] * self.session
        mine = self.numbers["mine"]
        values, amounts, named, others = self._compared()
        return {
            "score_ratio": ratio,
            "alike": self.common / union,
            "alike_besides": rest,
            "gap": np.log1p(np.maximum(self.gaps, 0.0) / DAY_S),
            "soon": self.gaps < SOON_S,
            "name_gained": named.gained,
            "name_lost": named.gained.T,
            "other_name": others.gained,
            "value_differs": values.older & values.gained,
            "value_within": values.both & ~values.gained,
            "value_lacking": values.older & ~values.newer,
            "amount_differs": amounts.older & amounts.gained,
            "amount_same": amounts.common,
            "need_alike": need * alike,
            "need_ratio": need * ratio,
            "corrects": corrects,
            "corrects_same": corrects * self.same_speaker,
            "mine_same": mine[:, None] * mine * self.same_speaker,
            "named_lost": self.is_by_named[:, None] & ~self.is_by_named,
            "amount_alike": (amounts.older & amounts.gained) * rest,
            "suggested": self.numbers["suggests"][:, None] * ~self.same_speaker,
            "whether": np.full(ratio.shape, float(self.asked.asks_whether)),
        }

    def _compared(self) -> list[_Compared]:
        """The values, amounts and names of one that the other has."""
        values = (
            [self.asked.values_of(each) for each in self.traits]
            if self.asked.values
            else [each - self.asked_names for each in self.names]
        )
        kinds = [
            values,
            [each.amounts - self.asked.words for each in self.traits],
            [each & self.asked_names for each in self.persons],
            [each - self.asked_names for each in self.names],
        ]
        rows = _rows(list(chain.from_iterable(kinds))).reshape(len(kinds), len(self.head), -1)
        common = rows @ rows.transpose(0, 2, 1)
        sizes = rows.sum(2)
        has, gained = sizes > 0, sizes[:, None, :] > common
        return [
            _Compared(*each)
            for each in zip(has[:, :, None], has[:, None, :], gained, common > 0, strict=True)
        ]

    def _by_vector(self) -> dict[str, Vector]:
        """The cosine of both: alone, less that of others, where the newer tells of change.

        None of them if two texts without a common word have one vector: the encoder cannot read
        them.
        """
        vectors = [each.vector for each in self.head if each.vector is not None]
        if len(vectors) < len(self.head):
            return {}
        cosines = likeness(np.array(vectors))
        if (cosines[np.triu(self.common == 0, k=1)] > SAME).any():
            return {}
        usual = (cosines.sum(1) - 1) / max(len(vectors) - 1, 1)
        return {
            "cosine": cosines,
            "cosine_older": cosines - usual[:, None],
            "cosine_newer": cosines - usual[None, :],
            "cosine_changes": cosines * self.numbers["changes"][None, :],
        }


class _Compared(NamedTuple):
    """Sets of two statements: whether the older and the newer have something.

    And whether the newer has something that the older lacks, and whether they share something.
    """

    older: Vector
    newer: Vector
    gained: Vector
    common: Vector

    @property
    def both(self) -> Vector:
        """Whether both have something."""
        both: Vector = self.older & self.newer
        return both


def _rows(sets: Sequence[AbstractSet[str]], first: Iterable[str] = ()) -> Any:
    """Sets of words, a row of zeros and ones for each; the columns of some words come `first`."""
    places = count()
    column = defaultdict[str, int](places.__next__, zip(first, places, strict=False))
    columns = [column[word] for each in sets for word in each]
    rows = np.zeros((len(sets), max(len(column), 1)))
    rows[np.repeat(np.arange(len(sets)), [len(each) for each in sets]), columns] = 1.0
    return rows


def _equal(given: Sequence[str]) -> Any:
    number = defaultdict[str, int](count().__next__)
    each = np.array([number[text] for text in given])
    return each == each[:, None]
