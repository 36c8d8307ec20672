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

SATURATION = 0.9
"""BM25's k1."""
LENGTH_NORMALISATION = 0.3
"""BM25's b. Low for conversation turns: with the usual .75, BM25 ranks worse than no BM25."""
RANK_SCALE = 1.645
"""With equal weights, ts_rank is (1 / 1.645) * the sum of 1 / j^2 over a word's occurrences; it
saturates like BM25's term frequency."""
MOST_WORDS = 32
"""The rarest words of a question that are used; each costs about 0.35 us per candidate."""
COLLOCATION = 1.5
"""How much more often than by chance two words of a question occur in the same row."""


@dataclass(frozen=True, slots=True)
class WordStatistics:
    """Document frequencies in a tenant.

    `shares` maps a word to the share of segments, 0 to 1, that contain it; other words have
    `rare_share`.
    """

    segments: int
    mean_length: float
    shares: Mapping[str, float] = field(default_factory=dict)
    rare_share: float = 0.0

    def frequency(self, word: str) -> float:
        """The estimated number of segments that contain the word."""
        return self.shares.get(word, self.rare_share) * self.segments

    def weight(self, word: str) -> float:
        """The word's inverse document frequency as in BM25; above 0."""
        frequency = min(self.frequency(word), self.segments)
        return math.log1p((self.segments - frequency + 0.5) / (frequency + 0.5))


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a search.

    Up to `all_rows` matching rows, all are scored; beyond, about `candidates`. `postings` limits
    the index entries read.
    """

    all_rows: int = 2000
    candidates: int = 500
    postings: int = 20_000


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The candidates as a tsquery, and each word with its weight.

    score = sum(weight * ts_rank) / (base + slope * length). `complete`: every row with any of the
    words is a candidate.
    """

    candidates: str
    complete: bool
    words: list[str]
    weights: list[float]
    base: float
    slope: float


def plan_query(
    words: Mapping[str, int],
    statistics: WordStatistics,
    budget: Budget,
    *,
    complete: bool = False,
) -> QueryPlan:
    """Plans the search for a question.

    Args:
        words: The question's lexemes with their counts; at least one. A repeated word weighs as
            often, as in BM25 for long questions.
        statistics: The tenant's.
        budget: The limits.
        complete: Makes every matching row a candidate, ignoring the budget.
    """
    rarest = sorted(words, key=lambda word: (statistics.frequency(word), word))[:MOST_WORDS]
    complete = complete or sum(map(statistics.frequency, rarest)) <= budget.all_rows
    candidates = any_of(rarest) if complete else _within_budget(rarest, statistics, budget)
    mean_length = max(statistics.mean_length, 1.0)
    return QueryPlan(
        candidates=candidates,
        complete=complete,
        words=[quoted(word) for word in rarest],
        weights=[RANK_SCALE * words[word] * statistics.weight(word) for word in rarest],
        base=1 + SATURATION * (1 - LENGTH_NORMALISATION),
        slope=SATURATION * LENGTH_NORMALISATION / mean_length,
    )


def quoted(word: str) -> str:
    """Quotes a lexeme for a tsquery."""
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def any_of(words: Iterable[str]) -> str:
    """A tsquery for rows with any of the words."""
    return " | ".join(map(quoted, words))


def all_of(words: Iterable[str]) -> str:
    """A tsquery for rows with all of the words."""
    return " & ".join(map(quoted, words))


def _within_budget(rarest: Sequence[str], statistics: WordStatistics, budget: Budget) -> str:
    """Single words while they fit, then pairs of an anchor with any of its partners.

    The index reads the postings of the anchor and only probes those of its partners.
    """
    single = _prefix_within(rarest, statistics, min(budget.candidates, budget.postings))
    expected = postings = sum(map(statistics.frequency, single))
    clauses = [quoted(word) for word in single]
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
            clauses.append(f"({quoted(anchor)} & ({any_of(partners)}))")
    return " | ".join(clauses) if clauses else quoted(rarest[0])


def _prefix_within(rarest: Sequence[str], statistics: WordStatistics, rows: float) -> Sequence[str]:
    """The longest prefix of the words that matches at most `rows` rows in total."""
    total = 0.0
    for place, word in enumerate(rarest):
        total += statistics.frequency(word)
        if total > rows:
            return rarest[:place]
    return rarest


def _joint_frequency(left: str, right: str, statistics: WordStatistics) -> float:
    """The estimated number of segments that contain both words."""
    by_chance = statistics.frequency(left) * statistics.frequency(right)
    return COLLOCATION * by_chance / max(statistics.segments, 1)
