"""ExplainAbsence: reads a query and an item, and writes where the item was lost."""

from __future__ import annotations

from datetime import datetime

from serving.config.profiles import ProfileBook
from serving.domain.items.records import ItemId
from serving.pipeline.retrieval.explain_absence import Absence
from serving.pipeline.retrieval.order.loss import Loss
from serving.rpc.check import Checker
from serving.rpc.items import from_reference, to_reference
from serving.rpc.retrieve import (
    LEG_STATES,
    RetrieveCall,
    from_hit,
    require_one_tenant,
    to_inner_call,
)
from trivium.v1 import retrieval_service_pb2 as retrieval_pb

_LOSSES = {loss: getattr(retrieval_pb, f"LOSS_{loss.name}") for loss in Loss}


def to_explain_absence_call(
    request: retrieval_pb.ExplainAbsenceRequest, profiles: ProfileBook, now: datetime
) -> tuple[RetrieveCall, ItemId]:
    """Reads an ExplainAbsenceRequest."""
    require_one_tenant(request.retrieve)
    with Checker() as check:
        item = to_reference(check, "item", request.item)
    return to_inner_call(request.retrieve, profiles, now), item


def from_absence(absence: Absence) -> retrieval_pb.ExplainAbsenceResponse:
    """Writes why an item is missing."""
    return retrieval_pb.ExplainAbsenceResponse(
        loss=_LOSSES[absence.loss],
        reason=absence.reason,
        by=from_reference(absence.by) if absence.by is not None else None,
        rank=absence.rank,
        hit=from_hit(absence.rank or 0, absence.hit, explain=True)
        if absence.hit is not None
        else None,
        legs=[
            retrieval_pb.LegAbsence(
                leg=leg.leg,
                state=LEG_STATES[leg.state],
                rank=leg.rank,
                score=leg.score,
                depth=leg.depth,
                reason=leg.reason,
            )
            for leg in absence.legs
        ],
    )
