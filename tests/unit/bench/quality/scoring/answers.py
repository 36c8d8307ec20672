"""Short forms of answers of the service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from trivium.values import (
    Fact,
    Hit,
    Item,
    LegReport,
    LegState,
    Retrieval,
    Segment,
    Statistics,
)

NO_TIME = timedelta()


def hit(rank: int, item: Item) -> Hit:
    """A hit at a rank."""
    return Hit(item=item, rank=rank, score=1 / rank)


def segment_of(id_: str) -> Segment:
    """A segment."""
    return Segment(id=id_, text="...")


def fact_of(*evidence: str) -> Fact:
    """A fact that rests on these segments."""
    return Fact(id="f", subject="a", relation="knows", object="b", evidence=evidence)


def report(leg: str, state: LegState = LegState.OK, *, elapsed_ms: float = 0) -> LegReport:
    """What became of a leg."""
    return LegReport(
        leg=leg,
        state=state,
        reason="",
        candidate_count=0,
        below_floor_count=0,
        elapsed=timedelta(milliseconds=elapsed_ms),
        dead_letter_count=0,
    )


def retrieval(
    hits: Sequence[Hit] = (),
    *,
    total: timedelta = NO_TIME,
    embedding: timedelta = NO_TIME,
    reports: Sequence[LegReport] = (),
    briefing: str = "",
) -> Retrieval:
    """An answer."""
    statistics = Statistics(
        total=total,
        embedding=embedding,
        loading=NO_TIME,
        ranking=NO_TIME,
        reranking=NO_TIME,
        candidate_count=0,
        folded_count=0,
        vanished_count=0,
        index_epoch=1,
    )
    return Retrieval(
        hits=tuple(hits),
        leg_reports=tuple(reports),
        statistics=statistics,
        briefing=briefing,
        coercions=(),
        profile="default",
    )
