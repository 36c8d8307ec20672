"""Scores hits in an order that the service did not give."""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness.collection import Query
from bench.quality.scoring.answers import ranked_segments, shown_of
from bench.quality.scoring.evaluate import Scored
from bench.quality.scoring.metrics import scores
from bench.quality.tune.leg_queries import to_row
from trivium.values import Hit


def score_hits(query: Query, hits: Sequence[Hit], partial: Sequence[str]) -> Scored:
    """Scores hits as one answer, with the block for a prompt that they would have.

    Args:
        query: The question.
        hits: Best first.
        partial: The legs that ended other than they should, and how.
    """
    ranked = ranked_segments(hits)
    shown = shown_of([to_row(hit.item) for hit in hits])
    return Scored(
        query=query,
        ranked=ranked,
        scores=scores(ranked, query.relevant, frozenset(ranked_segments(hits[:shown]))),
        partial=partial,
    )
