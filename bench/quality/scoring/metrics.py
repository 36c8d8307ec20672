"""The metrics of the answer to one question, by trec_eval (`pytrec_eval`).

Judgments are binary here: a segment answers a question or not. Segments are scored in the order of
the hits, and a fact counts as its evidence (`bench.quality.scoring.answers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import pytrec_eval

from bench.quality.scoring.answers import BRIEFING_CHARS, DEPTH

EVIDENCE = f"evidence@{BRIEFING_CHARS}"
"""The share of the relevant segments in the prompt block; all others measure the ranked list."""

CURRENT_FIRST = "current-first@10"
"""Of questions with outdated segments: whether a current one is found, and before all of these."""

METRICS = ("recall@5", "recall@10", "ndcg@10", "mrr@10", "all-gold@10", EVIDENCE)
"""The metrics of every question, in the order of the tables."""

_MEASURES = {"recall.5,10", "ndcg_cut.10", "recip_rank"}


def scores(
    ranked: Sequence[str],
    relevant: AbstractSet[str],
    briefed: AbstractSet[str] | None = None,
) -> dict[str, float]:
    """Every metric of one answer, by its name.

    Args:
        ranked: Ids of segments, best first, none twice.
        relevant: Those that answer the question; at least one.
        briefed: Those whose text is in the block for a prompt; None leaves its metric out.

    Raises:
        ValueError: Nothing is relevant: such a question says nothing about quality.
    """
    if not relevant:
        raise ValueError("a question without a relevant segment cannot be scored")
    head = ranked[:DEPTH]
    run = {id_: float(DEPTH - place) for place, id_ in enumerate(head)}
    evaluator = pytrec_eval.RelevanceEvaluator({"": dict.fromkeys(relevant, 1)}, _MEASURES)
    found = evaluator.evaluate({"": run})[""]
    scored = {
        "recall@5": found["recall_5"],
        "recall@10": found["recall_10"],
        "ndcg@10": found["ndcg_cut_10"],
        "mrr@10": found["recip_rank"],
        # A question of several hops is answered only by all of its evidence.
        "all-gold@10": float(relevant <= set(head)),
    }
    if briefed is not None:
        scored[EVIDENCE] = len(relevant & briefed) / len(relevant)
    return scored


def current_first(
    ranked: Sequence[str], current: AbstractSet[str], outdated: AbstractSet[str]
) -> float:
    """1 if a current segment is among the first, and before every outdated one, else 0."""
    either = (id_ for id_ in ranked[:DEPTH] if id_ in current or id_ in outdated)
    return float(next(either, None) in current)
