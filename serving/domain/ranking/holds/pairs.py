"""The features of an older and a newer statement: does the newer outdate the older?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serving.domain.ranking.holds.question import Question
from serving.domain.ranking.holds.statement import (
    NUMBERS,
    Statement,
    traits_of,
    words_of_speaker,
)

HEAD = 16
"""How many of the first candidates are rearranged. What follows them keeps its place."""

SOON_S = 90.0
"""What is said within these seconds is said in one breath."""

SESSION_S = 1200.0
"""What is said within these seconds is said in one conversation, where none is given."""

DAY_S = 86400.0

SHORT = 0.4
"""The `length` of a text of eight words, which says little besides."""

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
        self._numbers = np.array([each.numbers for each in self.traits]).T
        said = np.array([each.said.timestamp() for each in head])
        self.gaps = said[None, :] - said[:, None]
        self.later = self.gaps > 0
        self.scores = np.array([each.score for each in head])
        self.same_speaker = _equal([each.speaker for each in head])
        self.session = _equal([each.session for each in head], but="") | (
            np.abs(self.gaps) < SESSION_S
        )
        self.corrections = (
            self.later & self.session & self.same_speaker & (self.number("corrects") > 0)[None, :]
        )
        self.asks = np.array([asked.is_asked_by(each) for each in self.traits])
        self._add_words()
        self._add_names()
        self.values = _Sets([self._values(place) for place in range(len(head))])
        self.amounts = _Sets([each.amounts - asked.words for each in self.traits])

    def _add_words(self) -> None:
        """Words count by how few of the candidates have them."""
        count = len(self.head)
        stems = _Sets([each.stems for each in self.traits])
        spread = np.log((count + 1) / (stems.rows.sum(0) + 0.5))
        asked = np.array([stem in self.asked.stems for stem in stems.all], dtype=np.float64)
        unseen = len(self.asked.stems) - asked.sum()
        self.whole = float(asked @ spread + unseen * math.log(count + 1)) or 1.0
        weighted = stems.rows * spread
        self.common = weighted @ stems.rows.T
        self.common_asked = (weighted * asked) @ stems.rows.T
        self.total = weighted.sum(1)
        self.share = weighted @ asked / self.whole

    def _add_names(self) -> None:
        speakers = [words_of_speaker(each.speaker) for each in self.head]
        known = frozenset[str]().union(*speakers)
        self.asked_names = self.asked.traits.names | (known & self.asked.words)
        self.names = [each.names | (known & each.words) for each in self.traits]
        self.own = [
            speaker if each.signs["mine"] else frozenset[str]()
            for speaker, each in zip(speakers, self.traits, strict=True)
        ]
        self.persons = [a | b for a, b in zip(self.names, self.own, strict=True)]
        self.is_by_named = np.array([not self.asked_names.isdisjoint(each) for each in speakers])

    def _values(self, place: int) -> AbstractSet[str]:
        if self.asked.values:
            return self.asked.values_of(self.traits[place])
        return self.names[place] - self.asked_names

    def number(self, name: str) -> Vector:
        """One of `NUMBERS` of each text."""
        numbers: Vector = self._numbers[NUMBERS.index(name)]
        return numbers

    def features(self) -> Features:
        """The features of all pairs."""
        return Features(
            self._of_older(), self._of_newer(), {**self._of_both(), **self._by_vector()}
        )

    def _of_older(self) -> dict[str, Vector]:
        lengths = self.number("length")
        asked = [each.subject in self.asked.stems for each in self.traits]
        return {
            "o_negates": self.number("negates"),
            "o_changes": self.number("changes"),
            "o_length": lengths,
            "o_short": lengths <= SHORT,
            "o_near": np.array([each.is_near for each in self.head]),
            "o_place": np.arange(len(self.head)) / HEAD,
            "o_by_named": self.is_by_named,
            "o_subject_asked": np.array(asked),
        }

    def _of_newer(self) -> dict[str, Vector]:
        counted = np.where(self.asks, 0.0, self.share)
        since = (self.later & (counted[None, :] >= counted[:, None])) @ counted
        after = (self.later & (self.share[None, :] >= self.share[:, None])).sum(1)
        return {
            "n_supposes": self.number("supposes"),
            "n_reports": self.number("reports"),
            "n_jests": self.number("jests"),
            "n_settles": self.number("settles"),
            "n_asks": self.asks,
            "n_length": self.number("length"),
            "n_long": self.number("long"),
            "n_near": np.array([each.is_near for each in self.head]),
            "n_score": self.scores / (self.scores.max() or 1.0),
            "n_place": np.arange(len(self.head)) / HEAD,
            "n_share": self.share,
            "n_since": since / (counted.sum() or 1.0),
            "n_later": after / HEAD,
        }

    def _of_both(self) -> dict[str, Vector]:
        scores = np.maximum(self.scores, LEAST)
        ratio = np.minimum(scores[None, :] / scores[:, None], MOST)
        union = np.maximum(self.total[:, None] + self.total[None, :] - self.common, LEAST)
        rest = (self.common - self.common_asked) / union
        alike = self.common / np.maximum(np.sqrt(np.outer(self.total, self.total)), LEAST)
        has_value = np.array([self.asked.has_value(each) for each in self.traits])
        need = (self.asked.has_one_answer + self.number("changes") + has_value)[None, :]
        corrects = self.number("corrects")[None, :] * self.session
        corrects_same = corrects * self.same_speaker
        persons = _Sets(self.persons)
        named = _Sets([each & self.asked_names for each in self.persons])
        others = _Sets([each - self.asked_names for each in self.names])
        mine = self.number("mine")
        values, amounts = self.values, self.amounts
        amount_differs = amounts.differs()
        return {
            "score_ratio": ratio,
            "alike": self.common / union,
            "alike_besides": rest,
            "gap": np.log1p(np.maximum(self.gaps, 0.0) / DAY_S),
            "soon": self.gaps < SOON_S,
            "name_gained": named.more() > 0,
            "name_lost": named.more().T > 0,
            "other_name": others.more() > 0,
            "other_person": np.outer(persons.size, persons.size) * (persons.common() == 0) > 0,
            "value_differs": values.differs(),
            "value_within": values.within(),
            "value_lacking": np.outer(values.size > 0, values.size == 0),
            "amount_differs": amount_differs,
            "amount_same": amounts.common() > 0,
            "need_alike": need * alike,
            "need_ratio": need * ratio,
            "corrects": corrects,
            "corrects_same": corrects_same,
            "corrects_bare": corrects_same
            * (1 - np.minimum(4 * self.common_asked / self.whole, 1)),
            "mine_same": np.outer(mine, mine) * self.same_speaker,
            "named_lost": np.outer(self.is_by_named, ~self.is_by_named),
            "amount_alike": amount_differs * rest,
            "suggested": self.number("suggests")[:, None] * ~self.same_speaker,
            "whether": np.full(ratio.shape, float(self.asked.asks_whether)),
        }

    def _by_vector(self) -> dict[str, Vector]:
        """The cosine of both: alone, less that of others, where the newer tells of change."""
        vectors = [each.vector for each in self.head if each.vector is not None]
        if len(vectors) < len(self.head):
            return {}
        stacked = np.array(vectors, dtype=np.float64)
        cosines = stacked @ stacked.T
        usual = (cosines.sum(1) - 1) / max(len(vectors) - 1, 1)
        return {
            "cosine": cosines,
            "cosine_older": cosines - usual[:, None],
            "cosine_newer": cosines - usual[None, :],
            "cosine_changes": cosines * self.number("changes")[None, :],
        }


class _Sets:
    """Sets of words, a row of zeros and ones for each."""

    def __init__(self, sets: Sequence[AbstractSet[str]]) -> None:
        column: dict[str, int] = {}
        places = [
            (row, column.setdefault(word, len(column)))
            for row, each in enumerate(sets)
            for word in each
        ]
        self.all = list(column)
        self.rows = np.zeros((len(sets), len(column)))
        if places:
            self.rows[tuple(zip(*places, strict=True))] = 1.0
        self.size = self.rows.sum(1)
        self._common: Vector | None = None

    def common(self) -> Any:
        """How many words two have in common."""
        if self._common is None:
            self._common = self.rows @ self.rows.T
        return self._common

    def more(self) -> Any:
        """How many words the newer has that the older lacks."""
        return self.size[None, :] - self.common()

    def differs(self) -> Any:
        """Whether both have words, and the newer has others."""
        return (self.size[:, None] > 0) & (self.more() > 0)

    def within(self) -> Any:
        """Whether both have words, and the newer has no others."""
        return (np.outer(self.size, self.size) > 0) & (self.more() == 0)


def _equal(given: Sequence[str], but: str | None = None) -> Any:
    each = np.array(given)
    return (each[:, None] == each[None, :]) & (each != but)[:, None]
