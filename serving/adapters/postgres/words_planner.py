"""Which rows to consider for a question's words, and what each word is worth.

To score every row that has any of the words costs time in proportion to the corpus (124 ms
at 1M segments). So the rare words bring candidates on their own, and the common ones only
together with another word; what is left out had little chance (of the exact top 10, .86 to
.90 are still there, and recall@10 of LoCoMo's evidence is the same). Where few rows match,
as in most tenants, nothing is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SATURATION = 0.9
"""BM25's k1."""
LENGTH_NORMALISATION = 0.3
"""BM25's b. Conversation turns want little: the usual .75 ranks worse than no BM25 at all."""
RANK_SCALE = 1.645
"""ts_rank with equal weights is (1 / 1.645) * the sum of 1 / j^2 over a word's occurrences, which
saturates as BM25's term frequency does."""
MOST_WORDS = 32
"""Of a longer question the rarest words count; each costs about 0.35 us a candidate."""
COLLOCATION = 1.5
"""How much more often than by chance two words of one question share a row."""


@dataclass(frozen=True, slots=True)
class WordStatistics:
    """How common words are among the segments of a tenant.

    `shares` has the share of segments, 0 to 1, that hold a word; one that is not
    listed has `rare_share`.
    """

    segments: int
    mean_length: float
    shares: Mapping[str, float] = field(default_factory=dict)
    rare_share: float = 0.0

    def frequency(self, word: str) -> float:
        """How many segments hold the word, about."""
        return self.shares.get(word, self.rare_share) * self.segments

    def weight(self, word: str) -> float:
        """The word's inverse document frequency, as BM25 has it: above 0."""
        frequency = min(self.frequency(word), self.segments)
        return math.log1p((self.segments - frequency + 0.5) / (frequency + 0.5))


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a search may touch.

    `all_rows`: up to as many, every row that matches is scored. `candidates`: beyond
    that, about so many rows are. `postings`: entries read from the index on the way.
    """

    all_rows: int = 2000
    candidates: int = 500
    postings: int = 20_000


@dataclass(frozen=True, slots=True)
class WordsPlan:
    """What PostgreSQL needs: the candidates as a tsquery, and each word with its weight.

    score = sum(weight * ts_rank) / (base + slope * length). `complete` says whether
    every row with any of the words is a candidate.
    """

    candidates: str
    complete: bool
    words: list[str]
    weights: list[float]
    base: float
    slope: float


def plan_words(
    words: Mapping[str, int],
    statistics: WordStatistics,
    budget: Budget,
    *,
    complete: bool = False,
) -> WordsPlan:
    """Plans the search for a question.

    Args:
        words: The question's lexemes, and how often it has each; at least one. What it says
            twice weighs twice, as BM25 has it for long questions.
        statistics: Of the tenant.
        budget: What to stay within.
        complete: Leaves no row out, whatever the budget.
    """
    rarest = sorted(words, key=lambda word: (statistics.frequency(word), word))[:MOST_WORDS]
    complete = complete or sum(map(statistics.frequency, rarest)) <= budget.all_rows
    candidates = _any_of(rarest) if complete else _within_budget(rarest, statistics, budget)
    mean_length = max(statistics.mean_length, 1.0)
    return WordsPlan(
        candidates=candidates,
        complete=complete,
        words=[quoted(word) for word in rarest],
        weights=[RANK_SCALE * words[word] * statistics.weight(word) for word in rarest],
        base=1 + SATURATION * (1 - LENGTH_NORMALISATION),
        slope=SATURATION * LENGTH_NORMALISATION / mean_length,
    )


def quoted(word: str) -> str:
    """Writes a lexeme for a tsquery, where it then has no other meaning."""
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def _any_of(words: Sequence[str]) -> str:
    return " | ".join(map(quoted, words))


def _within_budget(rarest: Sequence[str], statistics: WordStatistics, budget: Budget) -> str:
    """Single words while they fit, then pairs: an anchor with any of its partners.

    Source: the recipe of section 3.3 of the measurements. The index reads the postings of the
    anchor, and only probes those of its partners.
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
            clauses.append(f"({quoted(anchor)} & ({_any_of(partners)}))")
    return " | ".join(clauses) if clauses else quoted(rarest[0])


def _prefix_within(rarest: Sequence[str], statistics: WordStatistics, rows: float) -> Sequence[str]:
    """As many of the words, from the rarest on, as match `rows` rows together."""
    total = 0.0
    for place, word in enumerate(rarest):
        total += statistics.frequency(word)
        if total > rows:
            return rarest[:place]
    return rarest


def _joint_frequency(left: str, right: str, statistics: WordStatistics) -> float:
    """How many segments hold both, about."""
    by_chance = statistics.frequency(left) * statistics.frequency(right)
    return COLLOCATION * by_chance / max(statistics.segments, 1)
