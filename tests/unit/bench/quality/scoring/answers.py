"""Short forms of answers of the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from tests.fakes.retrievals import NO_STATISTICS, NO_TIME
from trivium.values import (
    Fact,
    Hit,
    Item,
    LegReport,
    LegState,
    Retrieval,
    Segment,
)


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
    return Retrieval(
        hits=tuple(hits),
        leg_reports=tuple(reports),
        statistics=replace(NO_STATISTICS, total=total, embedding=embedding, index_epoch=1),
        briefing=briefing,
        coercions=(),
        profile="default",
    )
