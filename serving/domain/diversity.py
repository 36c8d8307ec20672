"""Saying a thing once: near-duplicates folded, and maximal marginal relevance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MMR_TRADE_OFF = 0.7
MMR_POOL = 20
_WORD = re.compile(r"\w+", re.UNICODE)


def words_of(text: str) -> frozenset[str]:
    """The distinct words of a text, without regard to case."""
    return frozenset(_WORD.findall(text.casefold()))


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    """The share of words in common, 0 to 1; two empty sets have nothing in common."""
    if not left or not right:
        return 0.0
    common = len(left & right)
    return common / (len(left) + len(right) - common)


def _overlap_at_least(threshold: float, left: frozenset[str], right: frozenset[str]) -> bool:
    """Whether the Jaccard overlap reaches `threshold`.

    It is at most the ratio of the sizes, which rules out most pairs at once.
    """
    smaller, larger = sorted((len(left), len(right)))
    return smaller >= threshold * larger and jaccard(left, right) >= threshold


def fold_near_duplicates(texts: Sequence[str], threshold: float) -> list[int]:
    """For each text, the place of the earlier text that stands for it, or its own.

    Args:
        texts: Best first.
        threshold: The word overlap (Jaccard) from which two texts are one.
    """
    stands_for: list[int] = []
    words = [words_of(text) for text in texts]
    kept: list[int] = []
    for place, of_text in enumerate(words):
        earlier = next((k for k in kept if _overlap_at_least(threshold, words[k], of_text)), place)
        if earlier == place:
            kept.append(place)
        stands_for.append(earlier)
    return stands_for


@dataclass(frozen=True, slots=True)
class Chosen:
    """A place of the input, in the order of choice, with what chose it.

    `closest` is the place of the text chosen before that it is most similar to, or None.
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
    """Orders the first `pool` texts by relevance less what was said already.

    At each step the text with the largest trade_off * relevance -
    (1 - trade_off) * (its largest Jaccard word overlap with a chosen one) is
    taken; equal values in the order given.

    Args:
        texts: Best first.
        relevances: One per text, on the scale of the similarity (0 to 1) unless
            a design asks otherwise.
        trade_off: The lambda of Carbonell and Goldstein, 0 to 1.
        pool: How many texts to consider; the work grows with its square.

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
