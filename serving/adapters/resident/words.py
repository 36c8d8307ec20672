"""The words of a tenant in memory: postings, ranked as PostgreSQL's `ts_rank` ranks them."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.domain.items.instants import microseconds
from serving.domain.items.records import Segment
from serving.domain.languages import Language
from serving.domain.questions.filters import passes
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import WordsSearch
from serving.domain.ranking.ranked_list import Candidate
from serving.domain.words.lexemes import asked_lexemes, languages_of
from serving.domain.words.query_plan import (
    MAX_SCORED,
    Budget,
    QueryPlan,
    WordStatistics,
    plan_query,
)

BUDGET = Budget()

FULL_SUM = 1.64493406685
"""The sum of 1 / j^2 over all j, as PostgreSQL's tsrank.c writes it."""

MIN_DEAD_TO_RENEW = 64
"""Above this, the postings are made anew once more than a quarter of their rows are dead."""

LABELS = "DCBA"
"""The parts of a segment, in the order of PostgreSQL's array of weights: text, speaker, keywords,
title."""

_LEXEME = re.compile(r"'((?:[^']|'')*)':([0-9ABC,]+)")
_UNLABELLED = re.compile(r"\d+(?=,|$)")

Floats = NDArray[np.float32]


class _Found(NamedTuple):
    """The live rows with a word, and their patterns: int64 (n,) each."""

    rows: NDArray[np.int64]
    patterns: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The properties of each row: bool, int64 (microseconds) and int64 (words), (n,) each."""

    alive: NDArray[np.bool_]
    times: NDArray[np.int64]
    lengths: NDArray[np.int64]


class Words:
    """The stored words of the segments of a tenant, none of which is hidden.

    A row is one version of a segment, and dies when another replaces it. The pattern of a word in a
    row has the labels of its occurrences in their order, such as "AD"; few are distinct.
    """

    def __init__(self, language: Language) -> None:
        self._language = language
        self._segments: list[Segment | None] = []
        self._row_of: dict[str, int] = {}
        self._times = array("q")
        self._lengths = array("q")
        self._postings: dict[str, array[int]] = {}
        """The rows with each word, and after each the number of the word's pattern there."""
        self._patterns: dict[str, int] = {}
        self._rows: _Rows | None = None
        self._known_ranks: dict[tuple[float, ...], Floats] = {}

    @property
    def mostly_dead(self) -> bool:
        """Whether the postings should be made anew, because many rows are dead."""
        dead = len(self._segments) - len(self._row_of)
        return dead > MIN_DEAD_TO_RENEW and dead > len(self._segments) / 4

    def put(self, segment: Segment, tsvector: str, length: int) -> None:
        """Adds or replaces a segment, with its words as PostgreSQL writes them."""
        self.remove(segment.id)
        row = self._row_of[segment.id] = len(self._segments)
        self._segments.append(segment)
        self._times.append(microseconds(segment.event_time))
        self._lengths.append(length)
        for word, labels in _words_of(tsvector):
            if word not in self._postings:
                self._postings[word] = array("I")
            pattern = self._patterns.setdefault(labels, len(self._patterns))
            self._postings[word].extend((row, pattern))

    def remove(self, id_: str) -> None:
        """Removes a segment, if there is one."""
        self._rows = None
        if (row := self._row_of.pop(id_, None)) is not None:
            self._segments[row] = None

    def search(self, query: Query, words: WordsSearch, depth: int) -> list[Candidate] | None:
        """Finds segments by BM25, best first, as `LexicalSearch`.

        None if more than `MAX_SCORED` rows would be scored: PostgreSQL then scores some of them.
        """
        asked = asked_lexemes(query.text, *languages_of(query.text, self._language))
        if not asked or not self._row_of:
            return []
        found = {word: self._having(word) for word in asked}
        statistics = WordStatistics(
            len(self._row_of),
            {word: float(len(each.rows)) for word, each in found.items() if len(each.rows) > 1},
        )
        candidates: list[Candidate] = []
        for complete in (False, True):
            plan = plan_query(asked, statistics, BUDGET, complete=complete)
            chosen = self._chosen(plan, found)
            if np.count_nonzero(chosen) > MAX_SCORED:
                return None
            scores = np.where(chosen, self._scores(plan, found, words), 0.0)
            candidates = self._best(scores, query, depth)
            if len(candidates) >= depth or plan.complete:
                break
        return candidates

    def _known(self) -> _Rows:
        if self._rows is None:
            alive = np.fromiter((each is not None for each in self._segments), np.bool_)
            self._rows = _Rows(alive, np.array(self._times), np.array(self._lengths))
        return self._rows

    def _having(self, word: str) -> _Found:
        pairs = np.array(self._postings.get(word, ()), np.int64).reshape(-1, 2)
        rows, patterns = pairs[self._known().alive[pairs[:, 0]]].T
        return _Found(rows, patterns)

    def _chosen(self, plan: QueryPlan, found: Mapping[str, _Found]) -> NDArray[np.bool_]:
        """The candidates of a plan: bool (rows,)."""
        chosen = np.zeros(len(self._segments), np.bool_)
        for word, partners in plan.clauses:
            rows = found[word].rows
            if partners:
                others = np.concatenate([found[partner].rows for partner in partners])
                rows = np.intersect1d(rows, others)
            chosen[rows] = True
        return chosen

    def _scores(
        self, plan: QueryPlan, found: Mapping[str, _Found], words: WordsSearch
    ) -> NDArray[np.float64]:
        """The score of each row, in the precision in which PostgreSQL computes it: float64 (n,)."""
        weights = [1.0, words.speaker, words.keywords, words.title]
        scale = max(weights)
        ranks = self._ranks(tuple(weight / scale for weight in weights))
        total = np.zeros(len(self._segments), np.float32)
        for word, weight in zip(plan.words, plan.weights, strict=True):
            rows, patterns = found[word]
            total[rows] += ranks[patterns] * np.float32(scale * weight)
        base, slope = float(np.float32(plan.base)), float(np.float32(plan.slope))
        return total / (base + slope * self._known().lengths)

    def _ranks(self, weights: tuple[float, ...]) -> Floats:
        """The `ts_rank` of each pattern: float32 (patterns,)."""
        known = self._known_ranks.get(weights)
        if known is None or len(known) < len(self._patterns):
            known = np.array([rank_of(labels, weights) for labels in self._patterns], np.float32)
            self._known_ranks = {weights: known}
        return known

    def _best(self, scores: NDArray[np.float64], query: Query, depth: int) -> list[Candidate]:
        condition, times = query.scope.segment_filter.condition, self._known().times
        scores[times > microseconds(query.scope.as_of)] = 0.0
        rows = np.flatnonzero(scores > 0)
        if not condition.parts and len(rows) > depth:
            least = np.partition(scores[rows], -depth)[-depth]
            rows = rows[scores[rows] >= least]
        ranked = sorted(
            (-score, at, segment.id, segment)
            for score, at, row in zip(
                scores[rows].tolist(), times[rows].tolist(), rows.tolist(), strict=True
            )
            if (segment := self._segments[row]) is not None and passes(segment, condition)
        )
        return [Candidate(segment.item, -score) for score, _, _, segment in ranked[:depth]]


@lru_cache(maxsize=1 << 15)
def rank_of(labels: str, weights: Sequence[float]) -> np.float32:
    """`ts_rank` of one word by the labels of its occurrences, with the weights of D, C, B and A.

    In single precision, but for the division.

    Source:
        PostgreSQL, src/backend/utils/adt/tsrank.c, calc_rank_or.
    """
    total, best, place = np.float32(0.0), np.float32(-1.0), 0
    for at, label in enumerate(labels, start=1):
        weight = np.float32(weights[LABELS.index(label)])
        total += weight / np.float32(at * at)
        if weight > best:
            best, place = weight, at
    rank = best + total - best / np.float32(place * place)
    return np.float32(float(rank) / FULL_SUM)


def _words_of(tsvector: str) -> Iterator[tuple[str, str]]:
    """The words of a tsvector in its text form, each with the labels of its occurrences."""
    for word, places in _LEXEME.findall(tsvector):
        labels = _UNLABELLED.sub("D", places)
        labels = "".join(label for label in labels if label in LABELS)
        # Tenants share most of their words.
        yield sys.intern(word.replace("''", "'").replace("\\\\", "\\")), labels
