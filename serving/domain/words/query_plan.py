"""The plan of a lexical search: candidate rows and word weights.

Scoring every row with any of the words takes time in proportion to the corpus (124 ms at 1M
segments). Rare words therefore select candidates on their own, common words only together with
another word. Of the exact top 10, .86 to .90 remain, and recall@10 of LoCoMo's evidence is the
same. Where few rows match, as in most tenants, every matching row is a candidate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

SATURATION = 0.9
"""BM25's k1."""
LENGTH_NORMALISATION = 0.3
"""BM25's b. Low for conversation turns: with the usual .75, BM25 ranks worse than no BM25."""
TYPICAL_LENGTH = 60.0
"""Distinct words of a segment that is neither raised nor lowered by its length. BM25 takes the mean
of all segments, so each new segment could change the order of others."""
RANK_SCALE = 1.645
"""With equal weights, ts_rank is (1 / 1.645) * the sum of 1 / j^2 over a word's occurrences; it
saturates like BM25's term frequency."""
MAX_WORDS = 32
"""The rarest words of a question that are used; each costs about 0.35 us per candidate."""
COLLOCATION = 1.5
"""The ratio of the common rows of two words of a question to those by chance."""
MAX_SCORED = 2000
"""A limit on the rows scored; words that always occur together can exceed any estimate."""


@dataclass(frozen=True, slots=True)
class WordStatistics:
    """Document frequencies in a tenant.

    `frequencies` maps a word to the number of segments that contain it, which may be an estimate;
    other words have the frequency `rare`.
    """

    segments: int
    frequencies: Mapping[str, float] = field(default_factory=dict)
    rare: float = 1.0

    def frequency(self, word: str) -> float:
        """The estimated number of segments that contain the word."""
        return self.frequencies.get(word, self.rare)

    def weights(self, words: Sequence[str]) -> list[float]:
        """The inverse document frequency of each of a question's words; above 0.

        BM25's, but among the segments that contain any of the words, as if each contained one,
        instead of among all: so segments without any of the words change no order.
        """
        frequencies = [self.frequency(word) for word in words]
        matching = sum(frequencies)
        return [math.log1p((matching + 0.5) / (frequency + 0.5)) for frequency in frequencies]


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a search.

    Up to `all_rows` matching rows, all are scored; beyond, about `candidates`. `postings` limits
    the index entries read.
    """

    all_rows: int = 2000
    candidates: int = 500
    postings: int = 20_000


class Clause(NamedTuple):
    """Rows with a word, and with any of its partners if it has some."""

    word: str
    partners: Sequence[str] = ()

    def __str__(self) -> str:
        """The clause as a tsquery."""
        if not self.partners:
            return quoted(self.word)
        return f"({quoted(self.word)} & ({any_of(self.partners)}))"


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The candidates are the rows of any clause; each word has a weight.

    score = sum(weight * ts_rank) / (base + slope * length). `complete`: every row with any of the
    words is a candidate.
    """

    clauses: Sequence[Clause]
    complete: bool
    words: Sequence[str]
    weights: list[float]
    base: float
    slope: float

    @property
    def candidates(self) -> str:
        """The candidates as a tsquery."""
        return " | ".join(map(str, self.clauses))


def plan_query(
    words: Mapping[str, int], statistics: WordStatistics, budget: Budget, *, complete: bool = False
) -> QueryPlan:
    """Plans the search for a question, from its lexemes with their counts; at least one.

    A repeated word weighs as often, as in BM25 for long questions. If `complete`, every matching
    row is a candidate, whatever the budget.
    """
    rarest = sorted(words, key=lambda word: (statistics.frequency(word), word))[:MAX_WORDS]
    complete = complete or sum(map(statistics.frequency, rarest)) <= budget.all_rows
    all_alone = [Clause(word) for word in rarest]
    return QueryPlan(
        clauses=all_alone if complete else _within_budget(rarest, statistics, budget),
        complete=complete,
        words=rarest,
        weights=[
            RANK_SCALE * words[word] * weight
            for word, weight in zip(rarest, statistics.weights(rarest), strict=True)
        ],
        base=1 + SATURATION * (1 - LENGTH_NORMALISATION),
        slope=SATURATION * LENGTH_NORMALISATION / TYPICAL_LENGTH,
    )


def quoted(word: str) -> str:
    """Quotes a lexeme for a tsquery."""
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def any_of(words: Iterable[str]) -> str:
    """A tsquery for rows with any of the words."""
    return " | ".join(map(quoted, words))


def all_of(words: Iterable[Iterable[str]]) -> str:
    """A tsquery for rows with all of the words, each in any of its lexemes."""
    return " & ".join(f"({any_of(lexemes)})" for lexemes in words)


def _within_budget(
    rarest: Sequence[str], statistics: WordStatistics, budget: Budget
) -> Sequence[Clause]:
    """Single words while they fit, then pairs of an anchor with any of its partners.

    The index reads the postings of the anchor and only probes those of its partners.
    """
    rows = min(budget.candidates, budget.postings)
    totals = accumulate(map(statistics.frequency, rarest))
    single = rarest[: sum(total <= rows for total in totals)]
    expected = postings = sum(map(statistics.frequency, single))
    clauses = [Clause(word) for word in single]
    rest = rarest[len(single) :]
    for place, anchor in enumerate(rest):
        postings += statistics.frequency(anchor)
        if postings > budget.postings:
            break
        partners: list[str] = []
        for partner in rest[place + 1 :]:
            joint = _joint_frequency(anchor, partner, statistics)
            if expected + joint > budget.candidates:
                break
            expected += joint
            partners.append(partner)
        if partners:
            clauses.append(Clause(anchor, partners))
    return clauses or [Clause(rarest[0])]


def _joint_frequency(left: str, right: str, statistics: WordStatistics) -> float:
    """The estimated number of segments that contain both words."""
    by_chance = statistics.frequency(left) * statistics.frequency(right)
    return COLLOCATION * by_chance / max(statistics.segments, 1)
