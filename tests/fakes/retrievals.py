"""Retrievals as a client returns them, for fakes of it."""

from __future__ import annotations

from datetime import timedelta

from trivium import Hit, Item, Retrieval, Statistics

NO_TIME = timedelta()

NO_STATISTICS = Statistics(
    total=NO_TIME,
    embedding=NO_TIME,
    loading=NO_TIME,
    ranking=NO_TIME,
    reranking=NO_TIME,
    candidate_count=0,
    folded_count=0,
    vanished_count=0,
    index_epoch=0,
)


def retrieval(*items: Item, briefing: str = "") -> Retrieval:
    """A retrieval with these hits, which took no time."""
    return Retrieval(
        hits=tuple(Hit(item=item, rank=1, score=1.0) for item in items),
        leg_reports=(),
        statistics=NO_STATISTICS,
        briefing=briefing,
        coercions=(),
        profile="default",
    )
