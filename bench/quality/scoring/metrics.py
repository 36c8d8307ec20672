"""Scores the answer to one question against binary judgments.

Judgments name the segments that answer a question. Segments are scored in the order of the hits,
and a fact counts as its evidence (`bench.quality.scoring.answers`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

DEPTH = 10
"""How much of a ranked list the metrics look at."""

BRIEFING_CHARS = 2000
"""The length of the block for a prompt within which evidence is looked for."""

EVIDENCE = f"evidence@{BRIEFING_CHARS}"
"""The only metric of the prompt block instead of the ranked list."""

METRICS = ("recall@5", "recall@10", "ndcg@10", "mrr@10", "all-gold@10", EVIDENCE)
"""Every metric, in the order of the tables."""


def scores(
    ranked: Sequence[str],
    relevant: AbstractSet[str],
    briefed: AbstractSet[str] | None = None,
) -> dict[str, float]:
    """Every metric of one answer, by its name.

    Args:
        ranked: Ids of segments, best first, none twice.
        relevant: Those that answer the question; at least one.
        briefed: Those whose text is in the block for a prompt; None if no block was asked for,
            and then its metric is not among the scores.

    Raises:
        ValueError: Nothing is relevant: such a question says nothing about quality.
    """
    if not relevant:
        raise ValueError("a question without a relevant segment cannot be scored")
    found = {
        "recall@5": recall_at(5, ranked, relevant),
        "recall@10": recall_at(10, ranked, relevant),
        "ndcg@10": ndcg_at(10, ranked, relevant),
        "mrr@10": reciprocal_rank_at(10, ranked, relevant),
        "all-gold@10": all_gold_at(10, ranked, relevant),
    }
    return found if briefed is None else {**found, EVIDENCE: evidence_recall(briefed, relevant)}


def recall_at(depth: int, ranked: Sequence[str], relevant: AbstractSet[str]) -> float:
    """The share of what is relevant that is among the first `depth`."""
    return len(relevant & set(ranked[:depth])) / len(relevant)


def ndcg_at(depth: int, ranked: Sequence[str], relevant: AbstractSet[str]) -> float:
    """The discounted gain of the first `depth`, of the best that could be had.

    Judgments are binary, so a relevant id at rank r gains 1 / log2(r + 1).

    Source:
        Järvelin, Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 2002.
    """
    ranks = [rank for rank, id_ in enumerate(ranked[:depth], start=1) if id_ in relevant]
    best = range(1, min(depth, len(relevant)) + 1)
    return _discounted(ranks) / _discounted(best)


def reciprocal_rank_at(depth: int, ranked: Sequence[str], relevant: AbstractSet[str]) -> float:
    """One divided by the rank of the first relevant id; 0 beyond `depth`."""
    for rank, id_ in enumerate(ranked[:depth], start=1):
        if id_ in relevant:
            return 1 / rank
    return 0.0


def all_gold_at(depth: int, ranked: Sequence[str], relevant: AbstractSet[str]) -> float:
    """1 if everything that is relevant is among the first `depth`, else 0.

    A question of several hops is answered only by all of its evidence. More than
    `depth` relevant segments cannot all be there, and score 0.
    """
    return float(relevant <= set(ranked[:depth]))


def evidence_recall(briefed: AbstractSet[str], relevant: AbstractSet[str]) -> float:
    """The share of the relevant segments that is in the prompt block."""
    return len(relevant & briefed) / len(relevant)


def _discounted(ranks: Sequence[int] | range) -> float:
    return math.fsum(1 / math.log2(rank + 1) for rank in ranks)
