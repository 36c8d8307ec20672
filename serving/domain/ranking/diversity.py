"""Diversity of an answer: maximal marginal relevance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MMR_TRADE_OFF = 0.7
MMR_POOL = 20
_WORD = re.compile(r"\w+", re.UNICODE)


def words_of(text: str) -> frozenset[str]:
    """The distinct words of a text; case is ignored."""
    return frozenset(_WORD.findall(text.casefold()))


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    """The Jaccard similarity, 0 to 1; an empty set has 0 with every set."""
    if not left or not right:
        return 0.0
    common = len(left & right)
    return common / (len(left) + len(right) - common)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A chosen text, by its index in the input (`place`), with the values that led to the choice.

    `closest` is the index of the most similar text that was chosen earlier, or None.
    """

    place: int
    relevance: float
    max_similarity: float
    value: float
    closest: int | None


def maximal_marginal_relevance(
    texts: Sequence[str],
    relevances: Sequence[float],
    *,
    trade_off: float = MMR_TRADE_OFF,
    pool: int = MMR_POOL,
) -> list[Chosen]:
    """Orders the first `pool` texts by relevance minus redundancy.

    Each step chooses the text with the largest trade_off * relevance - (1 - trade_off) *
    (its largest Jaccard word overlap with a chosen text). Of equal values, the earlier text is
    chosen. The time is quadratic in `pool`.

    The texts are best first, and relevances on the scale of the similarity (0 to 1) unless a design
    specifies otherwise. `trade_off` is the lambda of Carbonell and Goldstein.

    Source:
        Carbonell, Goldstein, "The Use of MMR, Diversity-Based Reranking for
        Reordering Documents and Producing Summaries", SIGIR 1998.
    """
    words = [words_of(text) for text in texts[:pool]]
    left = list(range(len(words)))
    similarity = [0.0] * len(words)
    closest: list[int | None] = [None] * len(words)
    chosen: list[Chosen] = []

    def value(place: int) -> float:
        return trade_off * relevances[place] - (1 - trade_off) * similarity[place]

    while left:
        best = max(left, key=lambda place: (value(place), -place))
        chosen.append(Chosen(best, relevances[best], similarity[best], value(best), closest[best]))
        left.remove(best)
        for place in left:
            if (overlap := jaccard(words[place], words[best])) > similarity[place]:
                similarity[place], closest[place] = overlap, best
    return chosen
