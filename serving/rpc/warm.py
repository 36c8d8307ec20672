"""Warm: reads what is to be prepared, and writes what was."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from serving.config.profiles import ProfileBook
from serving.pipeline.retrieval.warm import QUESTION, Warmed
from serving.rpc.items import duration
from serving.rpc.retrieve import RetrieveCall, to_retrieve_call
from trivium.v1 import retrieval_service_pb2 as retrieval_pb


def to_warm_call(
    request: retrieval_pb.WarmRequest, profiles: ProfileBook, now: datetime
) -> RetrieveCall:
    """Reads a WarmRequest, as a RetrieveRequest that asks nothing in particular."""
    asking = retrieval_pb.RetrieveRequest(
        tenant=request.tenant,
        query=QUESTION,
        profile=request.profile,
        time_budget=request.time_budget if request.HasField("time_budget") else None,
    )
    return to_retrieve_call(asking, profiles, now)


def from_warmed(call: RetrieveCall, warmed: Sequence[Warmed]) -> retrieval_pb.WarmResponse:
    """Writes what was prepared."""
    return retrieval_pb.WarmResponse(
        parts=[
            retrieval_pb.WarmPart(
                part=each.part, warm=each.warm, reason=each.reason, elapsed=duration(each.elapsed_s)
            )
            for each in warmed
        ],
        profile=call.profile.name,
    )
